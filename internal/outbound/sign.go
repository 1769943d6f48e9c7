package outbound

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Headers of a signed request, as https://www.standardwebhooks.com names them.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

const (
	// keyPrefix begins a key that is encoded.
	keyPrefix = "whsec_"
	// minKey is the least number of bytes of a key.
	minKey = 24
)

// key of a file: whsec_ and base64, as Standard Webhooks have it, or the bytes themselves.
func key(file string) ([]byte, error) {
	raw, err := os.ReadFile(file) //nolint:gosec // The operator names the file.
	if err != nil {
		return nil, fmt.Errorf("cannot read the key: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	out := []byte(text)
	if encoded, ok := strings.CutPrefix(text, keyPrefix); ok {
		if out, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, fmt.Errorf("%s has a key that begins with %s and is no base64", file, keyPrefix)
		}
	}
	if len(out) < minKey {
		return nil, fmt.Errorf("%s has a key of %d bytes; it must have at least %d", file, len(out), minKey)
	}
	return out, nil
}

// Sign a request with the key of HMACKeyFile, if there is one: the headers have the id of the message, the time in seconds since 1970, and the
// HMAC-SHA256 of id, time and body (https://www.standardwebhooks.com). A receiver compares it, and refuses times that are long past.
func (o Options) Sign(r *http.Request, id string, body []byte, now time.Time) error {
	if o.HMACKeyFile == "" {
		return nil
	}
	secret, err := key(o.HMACKeyFile)
	if err != nil {
		return err
	}
	at := strconv.FormatInt(now.Unix(), 10)
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(id + "." + at + "."))
	h.Write(body)
	r.Header.Set(HeaderID, id)
	r.Header.Set(HeaderTimestamp, at)
	r.Header.Set(HeaderSignature, "v1,"+base64.StdEncoding.EncodeToString(h.Sum(nil)))
	return nil
}
