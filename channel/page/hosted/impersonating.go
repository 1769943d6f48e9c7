package hosted

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
)

const (
	// logEvery is how often it is logged for a user that impersonation is refused.
	logEvery = time.Minute
	// refusalSize is how much of an answer is searched for that, in bytes.
	refusalSize = 4 << 10
)

// impersonating is a transport that acts as a user (KR-17-31). A request that the API server refuses because this process may not do so is logged: a page,
// which shows the refusal to its user, is not seen by the operator.
type impersonating struct {
	next   http.RoundTripper
	who    Person
	log    logr.Logger
	seldom rate.Sometimes
}

// RoundTrip implements http.RoundTripper.
func (i *impersonating) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := i.next.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusForbidden {
		return resp, err
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, refusalSize))
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	resp.Body = &replayedBody{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	if bytes.Contains(head, []byte("cannot impersonate")) {
		i.seldom.Do(func() {
			i.log.Info("the API server refuses to have this process act as a user: the roles of "+Component+" must list the user and the groups of the configuration",
				"user", i.who.User, "groups", i.who.Groups, "answer", string(head))
		})
	}
	return resp, nil
}

// replayedBody is a body of which some was read.
type replayedBody struct {
	io.Reader
	io.Closer
}
