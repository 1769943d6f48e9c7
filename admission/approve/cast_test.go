package approve_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestCastOf covers KR-14-44: by what the object has after the write, and before it.
func TestCastOf(t *testing.T) {
	const id = "7642947475a29290"
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	rule, errs := allowance.CompileRule(&v1alpha1.ApprovalRule{ObjectMeta: metav1.ObjectMeta{Name: "two"}, Spec: v1alpha1.ApprovalRuleSpec{
		Match:   v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}},
		Require: []v1alpha1.RequiredVotes{{Count: 2, NotAuthors: true, Subjects: []v1alpha1.Subject{{Kind: v1alpha1.SubjectGroup, Name: "dba"}}}}}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	d := &v1alpha1.DriftSpec{ID: id, Relation: v1alpha1.RelationControllerChild,
		Child: v1alpha1.ObjectReference{APIVersion: "example.org/v1", Kind: "Database", Namespace: "shop", Name: "orders-x"}}
	votes := func(users ...string) map[string]string {
		c := v1alpha1.Claim{Content: "x", State: v1alpha1.ClaimOpen, Digest: id, Mode: v1alpha1.ApprovalOnce, Votes: true}
		for _, u := range users {
			v := v1alpha1.Vote{User: u, At: metav1.NewTime(now)}
			if u != "eve" {
				v.Groups = []string{"dba"}
			}
			c.By = append(c.By, v)
		}
		raw, err := json.Marshal([]v1alpha1.Claim{c})
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{v1alpha1.AnnotationKeyClaims: string(raw)}
	}
	rejected := map[string]string{v1alpha1.AnnotationKeyRejections: `[{"kind":"Database","name":"orders-x","reason":"audit"}]`}
	const lacks = "1 of 2 approvals (anna); needs 1 more of group dba, not hans (ApprovalRule two)"
	for name, tc := range map[string]struct {
		user          string
		before, after map[string]string
		rules         allowance.Rules
		want          approve.Cast
		counts        bool
	}{
		"NoRule": {user: "anna", after: votes("anna"), counts: true},
		"First":  {user: "anna", after: votes("anna"), rules: allowance.Rules{rule}, want: approve.Cast{Ruled: true, Stored: true, Lacks: lacks}, counts: true},
		"Again": {user: "anna", before: votes("anna"), after: votes("anna"), rules: allowance.Rules{rule},
			want: approve.Cast{Ruled: true, Stored: true, Voted: true, Lacks: lacks}, counts: true},
		"Second": {user: "ben", before: votes("anna"), after: votes("anna", "ben"), rules: allowance.Rules{rule},
			want: approve.Cast{Ruled: true, Stored: true}, counts: true},
		"Outside": {user: "eve", before: votes("anna"), after: votes("anna", "eve"), rules: allowance.Rules{rule},
			want: approve.Cast{Ruled: true, Stored: true, Lacks: lacks, Discounted: "eve is not of group dba (ApprovalRule two)"}},
		"Author": {user: "hans", before: votes("anna"), after: votes("anna", "hans"), rules: allowance.Rules{rule},
			want: approve.Cast{Ruled: true, Stored: true, Lacks: lacks,
				Discounted: "hans is an author of the change, and authors do not vote (ApprovalRule two)"}},
		"Unreviewed": {user: "ben", after: votes("anna"), rules: allowance.Rules{rule}, want: approve.Cast{Ruled: true, Lacks: lacks}},
		"Rejected": {user: "anna", after: rejected,
			want: approve.Cast{Rejected: &v1alpha1.Rejection{Kind: "Database", Name: "orders-x", Reason: "audit"}}},
		"Frozen": {user: "anna", after: map[string]string{v1alpha1.AnnotationKeyFreeze: "true"}, want: approve.Cast{Frozen: true}, counts: true},
	} {
		got := approve.CastOf(d, tc.user, tc.before, tc.after, tc.rules, allowance.Authors{Names: []string{"hans"}}, now)
		if diff := cmp.Diff(tc.want, got); diff != "" || got.Counts() != tc.counts {
			t.Errorf("%s: counts %t; -want, +got:\n%s", name, got.Counts(), diff)
		}
	}
}
