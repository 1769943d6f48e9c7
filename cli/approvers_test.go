package cli

import (
	"testing"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestApprovers covers KR-14-10: who approved is shown with a trace and in explain.
func TestApprovers(t *testing.T) {
	for want, votes := range map[string][]v1alpha1.Vote{
		"":                          nil,
		", by anna":                 {{User: "anna"}},
		", by anna and bob":         {{User: "anna"}, {User: "bob"}},
		", by bot on behalf of bob": {{User: "bot", OnBehalfOf: "bob"}},
		", by eve (break glass: the database is down)": {{User: "eve", BreakGlass: "the database is down"}},
	} {
		if got := approvers(votes); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
