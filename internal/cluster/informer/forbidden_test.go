package informer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestRetryForbidden: a missing permission is retried, logged once and in the end
// returned with how to grant it; any other error is returned as it is.
func TestRetryForbidden(t *testing.T) {
	refused := kerrors.NewForbidden(schema.GroupResource{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}, "",
		errors.New(`User "gate" cannot create resource "selfsubjectreviews"`))
	away := errors.New("connection refused")
	cases := map[string]struct {
		reason  string
		answers []error
		// calls that are made, lines that are logged, and texts in the error.
		calls, lines int
		texts        []string
	}{
		"AtOnce": {reason: "permitted", answers: []error{nil}, calls: 1},
		"Late":   {reason: "the roles are read later", answers: []error{refused, refused, nil}, calls: 3, lines: 1},
		"Never": {
			reason: "there is no such role", answers: []error{refused, refused, refused, refused, refused}, calls: 5, lines: 1,
			texts: []string{"permission denied by the API server, 5 times", `cannot create resource "selfsubjectreviews"`, "kubectl auth can-i"},
		},
		"Away":     {reason: "no answer is not a denial", answers: []error{away}, calls: 1, texts: []string{"connection refused"}},
		"ThenAway": {reason: "nor is one that comes later", answers: []error{refused, away}, calls: 2, lines: 1, texts: []string{"connection refused"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var lines []string
			log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
			calls := 0
			f := func(context.Context) error {
				calls++
				return tc.answers[min(calls, len(tc.answers))-1]
			}
			err := retryForbidden(t.Context(), log, f, 4, time.Millisecond)
			if (err != nil) != (tc.texts != nil) || calls != tc.calls || len(lines) != tc.lines {
				t.Errorf("%s: error %v after %d calls; logged %v", tc.reason, err, calls, lines)
			}
			for _, want := range tc.texts {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in %v", want, err)
				}
			}
			if name == "Never" && !kerrors.IsForbidden(err) {
				t.Error("the error is not Forbidden any more")
			}
			for _, l := range lines {
				if !strings.Contains(l, "permission denied by the API server; retrying") || !strings.Contains(l, "selfsubjectreviews") {
					t.Errorf("logged %s", l)
				}
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := RetryForbidden(ctx, funcr.New(func(_, _ string) {}, funcr.Options{}), func(context.Context) error { return refused })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a process that ends goes on waiting: %v", err)
	}
}
