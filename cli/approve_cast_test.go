package cli

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestCastText covers KR-14-44: nothing is promised that a rule, a rejection or a freeze denies.
func TestCastText(t *testing.T) {
	const promise, one = "Its controller carries it out.", "1 of 2 approvals (anna); needs 1 more of group dba, not hans (ApprovalRule two)"
	on := target{Unstructured: &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "XDatabase",
		"metadata": map[string]any{"name": "orders", "namespace": "shop"}}}, resource: "xdatabases.example.org"}
	d := &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Name: "7642947475a29290", Namespace: "shop"}}
	for name, tc := range map[string]struct {
		cast   approve.Cast
		want   string
		counts bool
	}{
		"NoRule": {want: promise, counts: true},
		"First":  {cast: approve.Cast{Ruled: true, Stored: true, Lacks: one}, want: "Your vote counts: " + one + ".", counts: true},
		"Enough": {cast: approve.Cast{Ruled: true, Stored: true}, want: "Your vote counts. The change is allowed. " + promise, counts: true},
		"Again": {cast: approve.Cast{Ruled: true, Stored: true, Voted: true, Lacks: one},
			want: "You had voted already, and have one vote: " + one + ".", counts: true},
		"Outsider": {cast: approve.Cast{Ruled: true, Stored: true, Discounted: "eve is not of group dba", Lacks: one},
			want: "Your vote does not count: eve is not of group dba. " + one + "."},
		"NoGlass": {cast: approve.Cast{Ruled: true, Stored: true, NoGlass: true, Lacks: one}, counts: true,
			want: "No ApprovalRule names you for breaking the glass; your vote counts as any other: " + one + "."},
		"Window": {cast: approve.Cast{Ruled: true, Stored: true, Waits: true, Lacks: "window opens Mon 09:00 CET"}, counts: true,
			want: "Your vote counts. The change is approved, and waits: window opens Mon 09:00 CET. " + promise},
		"Unreviewed": {cast: approve.Cast{Ruled: true, Lacks: one},
			want: "Your vote is not stored, and does not count: no webhook has reviewed it. Approve it again. " + one + "."},
		"Rejected": {cast: approve.Cast{Rejected: &v1alpha1.Rejection{Reason: "audit"}},
			want: "It allows nothing: a rejection on XDatabase shop/orders is in force until it is " +
				"withdrawn (audit). To withdraw it: kubectl kausality reject 7642947475a29290 --withdraw -n shop"},
		"Frozen": {cast: approve.Cast{Frozen: true},
			want: "It has an effect once the freeze ends: kubectl kausality unfreeze -n shop xdatabases.example.org/orders", counts: true},
	} {
		if got := castText(&tc.cast, on, d, promise); got != tc.want || tc.cast.Counts() != tc.counts {
			t.Errorf("%s: counts %t, %q, want %t, %q", name, tc.cast.Counts(), got, tc.counts, tc.want)
		}
	}
	if code := Finish(&strings.Builder{}, errDiscounted); code != 6 {
		t.Errorf("exit code %d", code)
	}
}

// TestSentences: of several reasons all are kept.
func TestSentences(t *testing.T) {
	cmd := newApproveCommand(&session{})
	if err := cmd.Flags().Parse([]string{"-m", "SHOP-17", "-m", "canary"}); err != nil || cmd.Flag("reason").Value.String() != "SHOP-17; canary" {
		t.Errorf("%v: the reason is %q", err, cmd.Flag("reason").Value)
	}
}
