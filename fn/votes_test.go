package fn

import (
	"fmt"
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/policies"
)

// The function counts the votes that a webhook stores on the composite, by the same ApprovalRules (KR-14-11), also while a resource has used
// another approval that is still written there.
func TestVotes(t *testing.T) {
	for name, used := range map[string]string{"Votes": "", "BesideAUsedApproval": `[{"kind":"Thing","name":"other","mode":"once"}]`} {
		t.Run(name, func(t *testing.T) { testVotes(t, used) })
	}
}

// testVotes with approvals on the composite that its resource b has used.
func testVotes(t *testing.T, used string) {
	rule := resources(map[string]any{"apiVersion": "kausality.io/v1alpha1", "kind": "ApprovalRule", "metadata": map[string]any{"name": "production"},
		"spec": map[string]any{"match": map[string]any{"namespaces": []any{"*"}}, "require": []any{
			map[string]any{"count": int64(2), "subjects": []any{map[string]any{"kind": "Group", "name": "dba"}}}}}})
	crd := resources(map[string]any{"kind": "CustomResourceDefinition"})
	found := map[string]*fnv1.Resources{policies.RequirementRulesCRD: crd, policies.RequirementRules: rule}
	s := newStage(t, following)
	s.installed(found)
	s.annotate(v1alpha1.AnnotationKeyTrace,
		fmt.Sprintf(`[{"apiVersion":"example.org/v1","kind":"XDatabase","name":"db","generation":1,"user":"hans","timestamp":%q}]`, t0.Format(time.RFC3339)))
	want := desire{"b": plain("x")}
	s.reconcile(want)
	annotations := s.live["b"].GetAnnotations()
	annotations[v1alpha1.AnnotationKeyUpdaters] = "0123456789abcdef" // the webhook guards it
	for _, e := range approval.Parse(map[string]string{v1alpha1.AnnotationKeyApprovals: used}).Approvals {
		annotations[v1alpha1.AnnotationKeyUsedApprovals] = e.Content
		s.annotate(v1alpha1.AnnotationKeyApprovals, used)
	}
	s.live["b"].SetAnnotations(annotations)
	s.annotate(v1alpha1.AnnotationKeySettledGeneration, "1")
	want["b"] = plain("y")
	s.reconcile(want)
	s.wantWrites("hold b")
	id := strings.TrimPrefix(s.suggested()[0], v1alpha1.AnnotationKeyApprovePrefix)
	votes := func(by string) {
		s.annotate(v1alpha1.AnnotationKeyClaims, fmt.Sprintf(
			`[{"content":"c","state":"open","generation":1,"at":%q,"digest":%q,"mode":"once","votes":true,"by":[%s]}]`,
			t0.Format(time.RFC3339), id, by))
	}
	anna := `{"user":"anna","groups":["dba"],"at":"2026-01-01T00:00:00Z"}`
	votes(anna)
	s.reconcile(want)
	s.stable(want)
	if got := s.held("b"); got == nil || got.ID != id {
		t.Errorf("with one vote of two it is not held: %+v", got)
	}
	votes(anna + `,{"user":"bob","groups":["dba"],"at":"2026-01-01T00:00:00Z"}`)
	s.reconcile(want)
	s.wantWrites("update b")
}

// Without a webhook nothing records votes: the condition reports that rules do not count (KR-14-11).
func TestRulesWithoutWebhook(t *testing.T) {
	s := newStage(t, following)
	s.installed(map[string]*fnv1.Resources{
		policies.RequirementRulesCRD: resources(map[string]any{"kind": "CustomResourceDefinition"}),
		policies.RequirementRules: resources(map[string]any{"apiVersion": "kausality.io/v1alpha1", "kind": "ApprovalRule",
			"metadata": map[string]any{"name": "production"}, "spec": map[string]any{}}),
	})
	s.reconcile(desire{"b": plain("x")})
	if !strings.Contains(condition(s), "ApprovalRules do not count without a webhook") {
		t.Errorf("the condition: %s", condition(s))
	}
}
