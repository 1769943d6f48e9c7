package undecided

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// tries is how often a request is sent.
	tries = 8
	// pause before it is sent again: a webhook does not repeat a read that failed for a second.
	pause = 1100 * time.Millisecond
	// most repeats of all tests of a package together. A webhook that cannot decide more often is broken, however busy
	// the machine is.
	most = 60
)

// repeats so far.
var repeats atomic.Int64

// Transport sends a request again while the webhook answers that it could not read in time what it decides by: the
// parent, permissions, or the policies while its watches are late. What is refused, and any other error, is returned as it is.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next: next, pause: pause} }

type transport struct {
	next  http.RoundTripper
	pause time.Duration
}

// RoundTrip implements http.RoundTripper.
func (r transport) RoundTrip(req *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		res, err := r.next.RoundTrip(req)
		if err != nil || try == tries || res.StatusCode != http.StatusInternalServerError || req.Body != nil && req.GetBody == nil {
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
		if !is(body) {
			return res, nil
		}
		n := repeats.Add(1)
		fmt.Printf("it could not be decided in time; sending the request again (%d of at most %d): %s\n", n, most, req.URL.Path)
		if n > most {
			return res, nil
		}
		if req, err = r.again(req); err != nil {
			return nil, err
		}
	}
}

// is reports whether the body of an error is that of what could not be decided in time.
func is(body []byte) bool {
	return bytes.Contains(body, []byte(`"ParentUnreadable"`)) || bytes.Contains(body, []byte("denied the request: kausality: cannot "))
}

// again is the request to send after the pause.
func (r transport) again(req *http.Request) (*http.Request, error) {
	timer := time.NewTimer(r.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	again := req.Clone(req.Context())
	if req.GetBody == nil {
		return again, nil
	}
	var err error
	again.Body, err = req.GetBody()
	return again, err
}
