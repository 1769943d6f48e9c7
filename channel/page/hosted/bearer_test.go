package hosted

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
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
		"Known":      {header: "Bearer abc", status: known("hans"), want: Person{"hans", []string{"a", "b"}}, calls: 1},
		"Case":       {header: "bearer abc", status: known("hans"), want: Person{"hans", []string{"a", "b"}}, calls: 1},
		"Audience":   {header: "Bearer abc", audiences: []string{"page"}, status: known("hans", "page"), want: Person{"hans", []string{"a", "b"}}, calls: 1},
		"Other":      {header: "Bearer abc", audiences: []string{"page"}, status: known("hans", "api"), refused: "another audience", calls: 1},
		"NoAudience": {header: "Bearer abc", audiences: []string{"page"}, status: known("hans"), refused: "another audience", calls: 1},
		"Unknown":    {header: "Bearer abc", status: authenticationv1.TokenReviewStatus{Error: "expired"}, refused: "does not accept your token", calls: 1},
		"Account":    {header: "Bearer abc", status: known("system:serviceaccount:a:b"), want: Person{"system:serviceaccount:a:b", []string{"a", "b"}}, calls: 1},
		"None":       {refused: "has no bearer token"},
		"Basic":      {header: "Basic abc", refused: "has no bearer token"},
		"Away":       {header: "Bearer abc", err: errors.New("away"), calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			api := &reviews{status: tc.status, err: tc.err}
			b := &bearer{audiences: tc.audiences, reviews: api, known: utilcache.NewLRUExpireCache(maxReviews)}
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
