package hosted

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/kausality-io/function-kausality/channel"
)

const (
	// reviewedFor is how long a token counts that the API server has reviewed; after that time it may be expired, or its user may have lost a group.
	reviewedFor = time.Minute
	// refusedFor is how long a token is refused that it did not accept.
	refusedFor = 5 * time.Second
	// maxReviews that are remembered.
	maxReviews = 1000
	// reviewTimeout of one review.
	reviewTimeout = 10 * time.Second
	// maxToken is the length of a token in bytes.
	maxToken = 16 << 10
)

// bearer knows users by the tokens of their requests, which the API server reviews.
type bearer struct {
	audiences []string
	reviews   authentication.TokenReviewInterface
	known     *utilcache.LRUExpireCache
}

// reviewed is the outcome of a review.
type reviewed struct {
	Person
	err error
}

// of returns the user of a request, and the token. A token that the API server does not accept is a refusedError, as is a missing one; any other error
// is that it does not answer.
func (b *bearer) of(r *http.Request) (Person, string, error) {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(kind, "Bearer") || token == "" || len(token) > maxToken {
		return Person{}, "", &refusedError{"The request has no bearer token. The proxy in front of this page adds it, once you have logged in there."}
	}
	key := sha256.Sum256([]byte(token))
	if have, ok := b.known.Get(key); ok {
		return have.(reviewed).Person, token, have.(reviewed).err
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: b.audiences}}
	done, err := b.reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return Person{}, "", fmt.Errorf("cannot have the token reviewed: %w", err)
	}
	out, valid := b.outcome(&done.Status), reviewedFor
	if out.err != nil {
		valid = refusedFor
	}
	b.known.Add(key, out, valid)
	return out.Person, token, out.err
}

// outcome returns that of a review.
func (b *bearer) outcome(s *authenticationv1.TokenReviewStatus) reviewed {
	switch {
	case !s.Authenticated:
		return reviewed{err: &refusedError{"The API server does not accept your token: it has expired, or is for another audience. Log in again at the proxy. " +
			channel.Clip(s.Error)}}
	case len(b.audiences) > 0 && !slices.ContainsFunc(s.Audiences, func(a string) bool { return slices.Contains(b.audiences, a) }):
		return reviewed{err: &refusedError{"Your token is for another audience than this page. Log in again at the proxy."}}
	}
	groups := slices.Clone(s.User.Groups)
	slices.Sort(groups)
	return reviewed{Person: Person{User: s.User.Username, Groups: groups}}
}

// errNoToken is a request for a user whose token is not known any more.
var errNoToken = errors.New("the token is missing")

// bearing is a transport that sends the token of a user.
type bearing struct {
	next  http.RoundTripper
	token *atomic.Pointer[string]
}

// RoundTrip sends a request with the token that the user's last request had.
func (b *bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	token := b.token.Load()
	if token == nil || *token == "" {
		return nil, errNoToken
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+*token)
	return b.next.RoundTrip(r)
}
