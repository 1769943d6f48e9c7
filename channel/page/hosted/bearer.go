package hosted

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
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
	// maxReviews that are remembered, of valid tokens and of others; maxReviewing go on at a time.
	maxReviews, maxReviewing = 1000, 8
	// reviewTimeout of one review.
	reviewTimeout = 10 * time.Second
	// maxToken is the length of a token in bytes.
	maxToken = 16 << 10
)

// bearer knows users by the tokens of their requests, which the API server reviews.
type bearer struct {
	audiences []string
	reviews   authentication.TokenReviewInterface
	// known has the outcomes of valid tokens, refused those of others, so that these cannot displace those.
	known, refused *utilcache.LRUExpireCache
	flight         singleflight.Group
	// slots are taken by reviews that go on.
	slots chan struct{}
}

func newBearer(audiences []string, r authentication.TokenReviewInterface) *bearer {
	return &bearer{audiences: audiences, reviews: r, known: utilcache.NewLRUExpireCache(maxReviews), refused: utilcache.NewLRUExpireCache(maxReviews),
		slots: make(chan struct{}, maxReviewing)}
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
	for _, c := range []*utilcache.LRUExpireCache{b.known, b.refused} {
		if have, ok := c.Get(key); ok {
			return have.(reviewed).Person, token, have.(reviewed).err
		}
	}
	out, err, _ := b.flight.Do(string(key[:]), func() (any, error) { return b.review(context.WithoutCancel(r.Context()), token, key) })
	if err != nil {
		return Person{}, "", err
	}
	return out.(reviewed).Person, token, out.(reviewed).err
}

// errReviewing is that more tokens are to be reviewed than may be.
var errReviewing = errors.New("too many tokens are being reviewed")

// review a token, and remember the outcome.
func (b *bearer) review(ctx context.Context, token string, key [sha256.Size]byte) (out reviewed, err error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return out, errReviewing
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: b.audiences}}
	done, err := b.reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return out, fmt.Errorf("cannot have the token reviewed: %w", err)
	}
	if out = b.outcome(&done.Status); out.err != nil {
		b.refused.Add(key, out, refusedFor)
	} else {
		b.known.Add(key, out, reviewedFor)
	}
	return out, nil
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
	return reviewed{Person: Person{User: s.User.Username, Groups: groups, rest: restOf(&s.User)}}
}

// credentialID is what each token of a user has of its own.
const credentialID = "authentication.kubernetes.io/credential-id"

// restOf returns what a user has beside name and groups, which authorizers may read, too: two tokens of one user may permit different things.
func restOf(u *authenticationv1.UserInfo) string {
	extra := maps.Clone(u.Extra)
	delete(extra, credentialID)
	raw, _ := json.Marshal(map[string]any{"uid": u.UID, "extra": extra}) // of texts alone
	return string(raw)
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
