package hosted

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reviews are those of an API server.
type reviews struct {
	status authenticationv1.TokenReviewStatus
	err    error
	calls  int
}

// Create implements authentication.TokenReviewInterface.
func (r *reviews) Create(_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	r.calls++
	review.Status = r.status
	return review, r.err
}

// TestBearer covers KR-17-28: the API server knows by the token who the user is.
func TestBearer(t *testing.T) {
	known := func(name string, audiences ...string) authenticationv1.TokenReviewStatus {
		user := authenticationv1.UserInfo{Username: name, Groups: []string{"b", "a"}}
		return authenticationv1.TokenReviewStatus{Authenticated: true, User: user, Audiences: audiences}
	}
	for name, tc := range map[string]struct {
		header    string
		audiences []string
		status    authenticationv1.TokenReviewStatus
		err       error
		want      Person
		refused   string
		calls     int
	}{
		"Known": {header: "Bearer abc", status: known("hans"), want: Person{User: "hans", Groups: []string{"a", "b"}, rest: none}, calls: 1},
		"Case":  {header: "bearer abc", status: known("hans"), want: Person{User: "hans", Groups: []string{"a", "b"}, rest: none}, calls: 1},
		"Audience": {header: "Bearer abc", audiences: []string{"page"}, status: known("hans", "page"),
			want: Person{User: "hans", Groups: []string{"a", "b"}, rest: none}, calls: 1},
		"Other":      {header: "Bearer abc", audiences: []string{"page"}, status: known("hans", "api"), refused: "another audience", calls: 1},
		"NoAudience": {header: "Bearer abc", audiences: []string{"page"}, status: known("hans"), refused: "another audience", calls: 1},
		"Unknown":    {header: "Bearer abc", status: authenticationv1.TokenReviewStatus{Error: "expired"}, refused: "does not accept your token", calls: 1},
		"Account": {header: "Bearer abc", status: known("system:serviceaccount:a:b"),
			want: Person{User: "system:serviceaccount:a:b", Groups: []string{"a", "b"}, rest: none}, calls: 1},
		"None":  {refused: "has no bearer token"},
		"Basic": {header: "Basic abc", refused: "has no bearer token"},
		"Away":  {header: "Bearer abc", err: errors.New("away"), calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			api := &reviews{status: tc.status, err: tc.err}
			b := newBearer(tc.audiences, api)
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Authorization", tc.header)
			for range 2 {
				got, _, err := b.of(r)
				refused := (*refusedError)(nil)
				switch {
				case tc.refused != "":
					require.ErrorAs(t, err, &refused)
					assert.Contains(t, refused.text, tc.refused)
				case tc.err != nil:
					require.Error(t, err)
					assert.False(t, errors.As(err, &refused))
				default:
					require.NoError(t, err)
					assert.Equal(t, tc.want, got)
				}
			}
			assert.Equal(t, tc.calls, api.calls, "what is known is not reviewed again")
		})
	}
}

// none is what a user has beside name and groups who has nothing else.
const none = `{"extra":null,"uid":""}`

// TestRest covers KR-17-28: two tokens of a user are of one page unless they permit different things.
func TestRest(t *testing.T) {
	of := func(key, value string) string {
		return Person{User: "hans", rest: restOf(&authenticationv1.UserInfo{Extra: map[string]authenticationv1.ExtraValue{key: {value}}})}.key()
	}
	assert.Equal(t, of(credentialID, "JTI=1"), of(credentialID, "JTI=2"))
	assert.NotEqual(t, of("scopes.example.org", "read"), of("scopes.example.org", "all"))
}

// TestManyTokens covers KR-17-32: tokens that are not valid displace no others, and few are reviewed at a time.
func TestManyTokens(t *testing.T) {
	api := &reviews{status: authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "hans"}}}
	b := newBearer(nil, api)
	send := func(token string) error {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		_, _, err := b.of(r)
		return err
	}
	require.NoError(t, send("valid"))
	api.status = authenticationv1.TokenReviewStatus{}
	for n := range 2 * maxReviews {
		require.Error(t, send(strconv.Itoa(n)))
	}
	require.NoError(t, send("valid"))
	for range maxReviewing {
		b.slots <- struct{}{}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	ctx, cancel := context.WithTimeout(r.Context(), time.Millisecond)
	defer cancel()
	_, err := b.review(ctx, "other", sha256.Sum256(nil))
	require.ErrorIs(t, err, errReviewing)
}

// TestBearing covers KR-17-28: requests have the token that the user had last, and no credentials of the process.
func TestBearing(t *testing.T) {
	var token atomic.Pointer[string]
	got := ""
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
	defer server.Close()
	client := &http.Client{Transport: &bearing{http.DefaultTransport, &token}}
	_, err := client.Get(server.URL) //nolint:bodyclose // There is no answer.
	require.ErrorIs(t, err, errNoToken)
	for _, one := range []string{"first", "second"} {
		token.Store(&one)
		r, err := client.Get(server.URL)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		assert.Equal(t, "Bearer "+one, got)
	}
}
