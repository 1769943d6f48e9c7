package conformance

import (
	"net/http"
	"testing"
)

// TestUndecided: a request is repeated where the implementation could not read in time what it decides by, or the object changed
// meanwhile, and not where it refuses, or the API server fails (KR-05-04, KR-13-21, KR-13-74).
func TestUndecided(t *testing.T) {
	cause := func(reason string) map[string]any {
		return map[string]any{"details": map[string]any{"causes": []any{map[string]any{"reason": reason}}}}
	}
	denied := func(message string) map[string]any {
		return map[string]any{"message": `admission webhook "admission.kausality.io" denied the request: ` + message}
	}
	for name, tc := range map[string]struct {
		code int
		body map[string]any
		want bool
	}{
		"Parent":      {code: http.StatusInternalServerError, body: cause("ParentUnreadable"), want: true},
		"LateWatches": {code: http.StatusInternalServerError, body: denied("kausality: cannot decide while the watches are late: timeout"), want: true},
		"Permission":  {code: http.StatusInternalServerError, body: denied("kausality: cannot determine whether hans is a controller: timeout"), want: true},
		"Changed":     {code: http.StatusConflict, body: denied("kausality: cannot use an approval for Part one: the object has changed; try again"), want: true},
		"Conflict":    {code: http.StatusConflict, body: map[string]any{"message": "the object has been modified"}},
		"Refusal":     {code: http.StatusForbidden, body: cause("Drift")},
		"Forbidden":   {code: http.StatusForbidden, body: denied("kausality: cannot be")},
		"APIServer":   {code: http.StatusInternalServerError, body: map[string]any{"message": "etcdserver: request timed out"}},
		"Stored":      {code: http.StatusOK, body: map[string]any{"kind": "Part"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&answer{code: tc.code, body: tc.body}).undecided(); got != tc.want {
				t.Errorf("undecided is %t, want %t", got, tc.want)
			}
		})
	}
}
