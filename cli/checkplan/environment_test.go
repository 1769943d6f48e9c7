package checkplan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/admission/external"
)

// TestInEnvironment: what a run finds in the environment that Kausality wrote (KR-08-62).
func TestInEnvironment(t *testing.T) {
	now := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	all := func(more map[string]string) map[string]string {
		out := map[string]string{"KAUSALITY_TRACE_ID": "5f0c1e9a37b2d846", "KAUSALITY_INITIATOR": "hans", "KAUSALITY_ORIGIN": "XDatabase/orders@4"}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	of := func(target map[string]string, verbs ...string) external.Permission {
		return external.Permission{Verbs: verbs, Target: target, Initiator: "hans", Origin: "XDatabase/orders@4"}
	}
	for name, tc := range map[string]struct {
		reason string
		env    map[string]string
		want   []external.Permission
		note   string
		fails  string
	}{
		"Open": {reason: "what the gate is open for", env: all(map[string]string{"KAUSALITY_ALLOWED": "apply,destroy",
			"KAUSALITY_ALLOWED_UNTIL": "2026-11-28T10:00:01Z"}),
			want: []external.Permission{of(nil, "apply", "destroy")}},
		"Ended": {reason: "nothing after that", env: all(map[string]string{"KAUSALITY_ALLOWED": "apply", "KAUSALITY_ALLOWED_UNTIL": "2026-11-28T10:00:00Z"}),
			note: "apply was allowed until 2026-11-28T10:00:00Z"},
		"Log": {reason: "no gate", env: all(nil), want: []external.Permission{of(nil, "*")}, note: "no gate limits this run"},
		"Parts": {reason: "allowances give no more than the gate", env: all(map[string]string{"KAUSALITY_ALLOWED": "apply",
			"KAUSALITY_ALLOWANCES": `[{"relation":"External","verbs":["apply","destroy"],"externalTarget":{"name":"a"}},{"relation":"External","verbs":["Delete"]}]`}),
			want: []external.Permission{of(map[string]string{"name": "a"}, "Create", "Update")}},
		"Unknown": {reason: "it is not known", env: map[string]string{"KAUSALITY_ALLOWED": "apply"}, fails: "nothing shows what is allowed"},
		"NoTime": {reason: "it is no time", env: all(map[string]string{"KAUSALITY_ALLOWED": "apply", "KAUSALITY_ALLOWED_UNTIL": "soon"}),
			fails: "KAUSALITY_ALLOWED_UNTIL"},
		"NoList": {reason: "it is no list", env: all(map[string]string{"KAUSALITY_ALLOWED": "apply", "KAUSALITY_ALLOWANCES": "{"}),
			fails: "KAUSALITY_ALLOWANCES"},
		"TooLarge": {reason: "nothing is allowed", env: all(map[string]string{"KAUSALITY_ALLOWED": "apply", "KAUSALITY_ALLOWANCES": "[]"})},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := inEnvironment(func(key string) string { return tc.env[key] }, now)
			if err != nil || tc.fails != "" {
				if err == nil || tc.fails == "" || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("%s: error %v", tc.reason, err)
				}
				return
			}
			if d := cmp.Diff(tc.want, got.permissions); d != "" || !strings.Contains(got.note, tc.note) || (tc.note == "") != (got.note == "") {
				t.Errorf("%s: note %q, -want, +got:\n%s", tc.reason, got.note, d)
			}
		})
	}
}
