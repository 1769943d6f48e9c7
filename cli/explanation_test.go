package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// Of several ApprovalRules each is named with what it lacks; one alone is in the reason (KR-14-19).
func TestExplainNeeds(t *testing.T) {
	engines, managed := allowance.Need{Rule: "engines", Lacks: "0 of 2 approvals; needs 2 more of group dba"}, allowance.Need{Rule: "managed"}
	for name, tc := range map[string]struct {
		needs []allowance.Need
		want  string
	}{
		"Two": {needs: []allowance.Need{engines, managed},
			want: "2 ApprovalRules match it, and all must be met:|  engines: 0 of 2 approvals; needs 2 more of group dba|  managed: met"},
		"One":  {needs: []allowance.Need{engines}},
		"None": {},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			(view{}).explanation(&inspect.Explanation{Undecided: "x", Outcomes: []inspect.Outcome{{
				Attempt: inspect.AttemptController, Reason: outcome.ReasonDrift, Why: "because", Needs: tc.needs}}}).draw(&out)
			if has := strings.Contains(out.String(), "ApprovalRules match"); has != (tc.want != "") {
				t.Fatalf("in\n%s", out.String())
			}
			for _, line := range strings.Split(tc.want, "|") {
				if !strings.Contains(out.String(), line) {
					t.Errorf("no %q in\n%s", line, out.String())
				}
			}
		})
	}
}
