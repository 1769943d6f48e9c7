package cluster

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

// TestPermitted: a refusal is waited out, told of once and in the end returned with
// what to look at; anything else is returned as it is.
func TestPermitted(t *testing.T) {
	refused := kerrors.NewForbidden(schema.GroupResource{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}, "",
		errors.New(`User "gate" cannot create resource "selfsubjectreviews"`))
	away := errors.New("connection refused")
	cases := map[string]struct {
		reason  string
		answers []error
		// calls that are made, lines that are logged, and what the error says.
		calls, lines int
		says         []string
	}{
		"AtOnce":   {"nothing to wait for", []error{nil}, 1, 0, nil},
		"Late":     {"roles come", []error{refused, refused, nil}, 3, 1, nil},
		"Never":    {"they do not", []error{refused, refused, refused, refused, refused}, 5, 1, []string{"answers and refuses this", `cannot create resource "selfsubjectreviews"`, "kubectl auth can-i"}},
		"Away":     {"no answer is no refusal", []error{away}, 1, 0, []string{"connection refused"}},
		"ThenAway": {"nor is one that comes later", []error{refused, away}, 2, 1, []string{"connection refused"}},
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
			err := permitted(t.Context(), log, f, 4, time.Millisecond)
			if (err != nil) != (tc.says != nil) || calls != tc.calls || len(lines) != tc.lines {
				t.Errorf("%s: error %v after %d calls; logged %v", tc.reason, err, calls, lines)
			}
			for _, want := range tc.says {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in %v", want, err)
				}
			}
			if name == "Never" && !kerrors.IsForbidden(err) {
				t.Error("it does not tell that it is a refusal")
			}
			for _, l := range lines {
				if !strings.Contains(l, "does not grant this; it is asked again") || !strings.Contains(l, "selfsubjectreviews") {
					t.Errorf("logged %s", l)
				}
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := Permitted(ctx, funcr.New(func(_, _ string) {}, funcr.Options{}), func(context.Context) error { return refused }); !errors.Is(err, context.Canceled) {
		t.Errorf("a process that is told to end goes on waiting: %v", err)
	}
}
