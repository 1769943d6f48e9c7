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
	e := encoders.Get().(*encoder)
	e.buffer.Reset()
	if err := e.json.Encode(value); err != nil {
		panic(err)
	}
	out := string(bytes.TrimSuffix(e.buffer.Bytes(), []byte("\n")))
	encoders.Put(e) // not after an error, which it keeps
	return out
}

// encoder of MustMarshal: the text is copied once, as the string that is returned.
type encoder struct {
	buffer bytes.Buffer
	json   *json.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.json = json.NewEncoder(&e.buffer)
	return e
}}

// Digest returns the Hash of the JSON of a value, as MustMarshal returns it.
func Digest(value any, digits int) string { return Hash([]byte(MustMarshal(value)), digits) }

// Hash returns the first hex digits of the SHA-256 of data, at most 64.
func Hash(data []byte, digits int) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:digits]
}
