package cli

import (
	"strings"
	"testing"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Below a cause, pending prints what the votes lack, of few sets of votes (KR-14-12).
func TestPendingLacks(t *testing.T) {
	revision := v1alpha1.HopCause{Kind: v1alpha1.CauseComposition, Name: "xdatabases-7f3"}
	var list []v1alpha1.Drift
	for n, lacks := range []string{"0 of 2 approvals", "0 of 2 approvals", "1 of 2 approvals (anna)", ""} {
		d := changed(n, "team-0", revision)
		d.Status.Lacks = lacks
		list = append(list, d)
	}
	out, _ := printed(t, formatTable, list)
	if strings.Count(out.String(), "  Lacks: ") != 2 || !strings.Contains(out.String(), "  Lacks: 1 of 2 approvals (anna), for 0000000000000002\n") {
		t.Errorf("it prints:\n%s", out)
	}
	if !strings.Contains(out.String(), "  Lacks: 0 of 2 approvals, for 0000000000000000, 0000000000000001\n") {
		t.Errorf("without the ids of those that lack the same:\n%s", out)
	}
	for n, user := range []string{"bob", "carl", "dora"} {
		d := changed(10+n, "team-0", revision)
		d.Status.Lacks = "1 of 2 approvals (" + user + ")"
		list = append(list, d)
	}
	if out, _ = printed(t, formatTable, list); strings.Count(out.String(), "  Lacks: ") > 3 || !strings.Contains(out.String(), "other sets of votes") {
		t.Errorf("it prints:\n%s", out)
	}
}
