package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestFreezeExpiry: --for and --until declare when a freeze ends by itself (KR-14-40).
func TestFreezeExpiry(t *testing.T) {
	now := time.Date(2026, 1, 5, 9, 30, 0, 0, time.UTC)
	cases := map[string]struct {
		c         endOptions
		want, err string
	}{
		"None":  {},
		"For":   {c: endOptions{period: 2 * time.Hour}, want: "2026-01-05T11:30:00Z"},
		"Until": {c: endOptions{until: "2026-01-05T12:00:00+01:00"}, want: "2026-01-05T11:00:00Z"},
		"Both":  {c: endOptions{period: time.Hour, until: "2026-01-05T12:00:00Z"}, err: "exclude each other"},
		"Past":  {c: endOptions{until: "2026-01-05T09:30:00Z"}, err: "would end immediately"},
		"Word":  {c: endOptions{until: "monday"}, err: "--until must be a time"},
	}
	for name, tc := range cases {
		err := tc.c.check("freeze", now)
		got := ""
		if at := tc.c.expires; at != nil {
			got = at.Format(time.RFC3339)
		}
		if got != tc.want || (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: want %q %q, got %q %v", name, tc.want, tc.err, got, err)
		}
	}
}

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
