package webhook

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

const (
	// requestTries is how often a request is sent whose parent could not be read in time.
	requestTries = 3
	// maxRepeats of all tests together. A webhook that cannot read parents more often is broken, however busy the machine is.
	maxRepeats = 20
)

// repeats so far.
var repeats atomic.Int64

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
		n := repeats.Add(1)
		fmt.Printf("the parent could not be read in time; sending the request again (%d of at most %d): %s\n", n, maxRepeats, req.URL.Path)
		if n > maxRepeats {
			return res, nil
		}
		again := req.Clone(req.Context())
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
		req = again
	}
}
