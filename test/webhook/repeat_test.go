package webhook

import (
	"bytes"
	"io"
	"net/http"
)

// requestTries is how often a request is sent whose parent could not be read in time.
const requestTries = 3

// repeating sends a request again, as a controller does, while the machine is so slow that the webhook cannot read
// the parent in time (KR-05-04).
type repeating struct{ next http.RoundTripper }

func (r repeating) RoundTrip(req *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		res, err := r.next.RoundTrip(req)
		if err != nil || try == requestTries || res.StatusCode != http.StatusInternalServerError || req.GetBody == nil {
			return res, err
		}
		body, err := io.ReadAll(res.Body)
		if closed := res.Body.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return nil, err
		}
		res.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte(`"ParentUnreadable"`)) {
			return res, nil
		}
		again := req.Clone(req.Context())
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
		req = again
	}
}
