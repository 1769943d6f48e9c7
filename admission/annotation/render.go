package annotation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"
)

// MustMarshal returns a value of an annotation as single-line JSON. It panics on a value that JSON cannot represent,
// which no type of an annotation has.
func MustMarshal(value any) string {
	buffer := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(buffer)
	buffer.Reset()
	if err := json.NewEncoder(buffer).Encode(value); err != nil {
		panic(err)
	}
	return string(bytes.TrimSuffix(buffer.Bytes(), []byte("\n")))
}

// buffers of MustMarshal: the text is copied once, as the string that is returned.
var buffers = sync.Pool{New: func() any { return &bytes.Buffer{} }}

// Digest returns the Hash of the JSON of a value, as MustMarshal returns it.
func Digest(value any, digits int) string { return Hash([]byte(MustMarshal(value)), digits) }

// Hash returns the first hex digits of the SHA-256 of data, at most 64.
func Hash(data []byte, digits int) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:digits]
}
