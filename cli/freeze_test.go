package cli

import (
	"testing"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestFrozenBy names the author of another user's freeze (KR-12-17).
func TestFrozenBy(t *testing.T) {
	cases := map[string]struct{ freeze, want string }{
		"None": {},
		"Own":  {freeze: `{"user":"hans"}`},
		"Other": {freeze: `{"user":"alice","message":"incident 4711","at":"2026-01-05T09:30:00Z"}`,
			want: "It was frozen by alice since 2026-01-05T09:30:00Z (incident 4711). "},
		"Unnamed": {freeze: `{"message":"no"}`, want: "It was frozen by an unknown user (no). "},
	}
	for name, tc := range cases {
		annotations := map[string]string{}
		if tc.freeze != "" {
			annotations[v1alpha1.AnnotationKeyFreeze] = tc.freeze
		}
		if have := frozenBy(annotations, "hans"); have != tc.want {
			t.Errorf("%s: %q, want %q", name, have, tc.want)
		}
	}
}
