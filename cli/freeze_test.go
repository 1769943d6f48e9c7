package cli

import (
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestFrozenBy names the author of another user's freeze (KR-12-17).
func TestFrozenBy(t *testing.T) {
	cases := map[string]struct{ freeze, want string }{
		"Ended": {freeze: `{"user":"alice","expiry":"2026-01-05T09:30:00Z"}`}, // KR-14-31
		"None":  {},
		"Own":   {freeze: `{"user":"hans"}`},
		"Other": {freeze: `{"user":"alice","message":"incident 4711","at":"2026-01-05T09:30:00Z"}`,
			want: "It was frozen by alice since 2026-01-05T09:30:00Z (incident 4711). "},
		"Unnamed": {freeze: `{"message":"no"}`, want: "It was frozen by an unknown user (no). "},
	}
	for name, tc := range cases {
		annotations := map[string]string{}
		if tc.freeze != "" {
			annotations[v1alpha1.AnnotationKeyFreeze] = tc.freeze
		}
		if have := frozenBy(annotations, "hans", time.Date(2026, 1, 5, 9, 30, 0, 0, time.UTC)); have != tc.want {
			t.Errorf("%s: %q, want %q", name, have, tc.want)
		}
	}
}
