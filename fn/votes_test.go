package fn

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/policies"
)

// The function counts the votes that a webhook stores on the composite, by the same ApprovalRules (KR-14-11), also while a resource has used
// another approval that is still written there.
func TestVotes(t *testing.T) {
	key := bytes.Repeat([]byte("k"), 32)
	for name, tc := range map[string]votesCase{
		"Votes":               {guarded: true, counts: true},
		"BesideAUsedApproval": {guarded: true, counts: true, used: `[{"kind":"Thing","name":"other","mode":"once"}]`},
		"Unguarded":           {}, // nothing verifies them (KR-13-69)
		"UnguardedSealed":     {key: key, sealed: true, counts: true},
		"UnguardedUnsealed":   {key: key},
		"Unsealed":            {key: key, guarded: true},
	} {
		t.Run(name, func(t *testing.T) { testVotes(t, tc) })
	}
}

// TestVotesOpenGate: the function opens its gate by votes that are proven, where no webhook guards the resource (KR-13-69).
func TestVotesOpenGate(t *testing.T) {
	for name, tc := range map[string]struct {
		key    []byte
		sealed bool
	}{
		"NoKey": {}, "Unsealed": {key: bytes.Repeat([]byte("k"), 32)}, "Sealed": {key: bytes.Repeat([]byte("k"), 32), sealed: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, managed)
			if tc.key != nil {
				s.fn.Claims = &approval.Keys{}
				s.fn.Claims.Use(tc.key)
			}
			s.installed(map[string]*fnv1.Resources{policies.RequirementRulesCRD: resources(map[string]any{"kind": "CustomResourceDefinition"}),
				policies.RequirementRules: resources(map[string]any{"apiVersion": "kausality.io/v1alpha1", "kind": "ApprovalRule",
					"metadata": map[string]any{"name": "production"}, "spec": map[string]any{"match": map[string]any{"relations": []any{"External"}},
						"require": []any{map[string]any{"count": int64(1), "subjects": []any{map[string]any{"kind": "Group", "name": "dba"}}}}}})})
			want := desire{"a": database(1)}
			s.reconcile(want)
			s.confirm(1)
			s.settle(want)
			s.confirm(7)
			s.reconcile(want)
			s.wantPolicies("Observe")
			_, _, message := s.condition()
			id := strings.TrimPrefix(regexp.MustCompile(`kausality\.io/approve-[0-9a-f]{16}`).FindString(message), v1alpha1.AnnotationKeyApprovePrefix)
			value := fmt.Sprintf(`[{"content":"c","state":"open","generation":1,"at":%q,"digest":%q,"mode":"once","votes":true,`+
				`"by":[{"user":"anna","groups":["dba"],"at":"2026-01-01T00:00:00Z"}]}]`, t0.Format(time.RFC3339), id)
			if tc.sealed {
				value = s.fn.Claims.Seal(approval.Sealed{UID: s.xr.GetUID(), Kind: s.xr.GroupVersionKind().GroupKind(), Namespace: "shop", Name: "db"}, value)
			}
			s.annotate(v1alpha1.AnnotationKeyClaims, value)
			s.reconcile(want)
			if tc.sealed {
				s.wantPolicies("Observe", "Update")
			} else {
				s.wantPolicies("Observe")
			}
		})
	}
}

type votesCase struct {
	// used approvals on the composite, by its resource b.
	used string
	// guarded: a webhook guards the resource. key of the function, and whether the votes are sealed.
	guarded bool
	key     []byte
	sealed  bool
	// counts: two votes of two are enough.
	counts bool
}

func testVotes(t *testing.T, tc votesCase) {
	rule := resources(map[string]any{"apiVersion": "kausality.io/v1alpha1", "kind": "ApprovalRule", "metadata": map[string]any{"name": "production"},
		"spec": map[string]any{"match": map[string]any{"namespaces": []any{"*"}}, "require": []any{
			map[string]any{"count": int64(2), "subjects": []any{map[string]any{"kind": "Group", "name": "dba"}}}}}})
	crd := resources(map[string]any{"kind": "CustomResourceDefinition"})
	found := map[string]*fnv1.Resources{policies.RequirementRulesCRD: crd, policies.RequirementRules: rule}
	s := newStage(t, following)
	if tc.key != nil {
		s.fn.Claims = &approval.Keys{}
		s.fn.Claims.Use(tc.key)
	}
	s.installed(found)
	s.annotate(v1alpha1.AnnotationKeyTrace,
		fmt.Sprintf(`[{"apiVersion":"example.org/v1","kind":"XDatabase","name":"db","generation":1,"user":"hans","timestamp":%q}]`, t0.Format(time.RFC3339)))
	want := desire{"b": plain("x")}
	s.reconcile(want)
	annotations := s.live["b"].GetAnnotations()
	if tc.guarded {
		annotations[v1alpha1.AnnotationKeyUpdaters] = "0123456789abcdef"
	}
	for _, e := range approval.Parse(map[string]string{v1alpha1.AnnotationKeyApprovals: tc.used}).Approvals {
		annotations[v1alpha1.AnnotationKeyUsedApprovals] = e.Content
		s.annotate(v1alpha1.AnnotationKeyApprovals, tc.used)
	}
	s.live["b"].SetAnnotations(annotations)
	s.annotate(v1alpha1.AnnotationKeySettledGeneration, "1")
	want["b"] = plain("y")
	s.reconcile(want)
	s.wantWrites("hold b")
	id := strings.TrimPrefix(s.suggested()[0], v1alpha1.AnnotationKeyApprovePrefix)
	votes := func(by string) {
		value := fmt.Sprintf(`[{"content":"c","state":"open","generation":1,"at":%q,"digest":%q,"mode":"once","votes":true,"by":[%s]}]`,
			t0.Format(time.RFC3339), id, by)
		if tc.sealed {
			value = s.fn.Claims.Seal(approval.Sealed{UID: s.xr.GetUID(), Kind: s.xr.GroupVersionKind().GroupKind(), Namespace: "shop", Name: "db"}, value)
		}
		s.annotate(v1alpha1.AnnotationKeyClaims, value)
	}
	anna := `{"user":"anna","groups":["dba"],"at":"2026-01-01T00:00:00Z"}`
	votes(anna)
	s.reconcile(want)
	s.stable(want)
	if got := s.held("b"); got == nil || got.ID != id {
		t.Errorf("with one vote of two it is not held: %+v", got)
	} else if tc.counts && !strings.Contains(got.Lacks, "1 of 2 approvals (anna); needs 1 more of group dba") || !strings.Contains(condition(s), got.Lacks) {
		t.Errorf("what it lacks is %q, in the condition: %s", got.Lacks, condition(s))
	}
	votes(anna + `,{"user":"bob","groups":["dba"],"at":"2026-01-01T00:00:00Z"}`)
	s.reconcile(want)
	switch got := s.held("b"); {
	case tc.counts:
		s.wantWrites("update b")
	case got == nil || !strings.Contains(got.Lacks, "0 of 2 approvals"):
		t.Errorf("two votes that nothing shows are counted: %+v", got)
	}
}

// Who made the revision that is the cause of a change does not approve it where a rule has notAuthors, as in the webhook: neither who changed
// the Composition, nor who changed a Function (KR-14-11, KR-14-61).
func TestAuthorsDoNotVote(t *testing.T) {
	const (
		composition = "apiextensions.crossplane.io/v1"
		mine        = `[{"apiVersion":"%s","kind":"%s","name":"%s","generation":2,"user":"%s"}]`
	)
	pipeline := []any{map[string]any{"functionRef": map[string]any{"name": "function-pt"}}}
	trace := func(apiVersion, kind, name, user string) map[string]any {
		return map[string]any{v1alpha1.AnnotationKeyTrace: fmt.Sprintf(mine, apiVersion, kind, name, user)}
	}
	found := map[string]*fnv1.Resources{
		policies.RequirementRulesCRD: resources(map[string]any{"kind": "CustomResourceDefinition"}),
		policies.RequirementRules: resources(map[string]any{"apiVersion": "kausality.io/v1alpha1", "kind": "ApprovalRule",
			"metadata": map[string]any{"name": "production"}, "spec": map[string]any{"match": map[string]any{"namespaces": []any{"*"}},
				"require": []any{map[string]any{"count": int64(1), "notAuthors": true}}}}),
		policies.RequirementRevision: resources(map[string]any{"apiVersion": composition, "kind": "CompositionRevision",
			"metadata": map[string]any{"name": "r2", "annotations": trace(composition, "Composition", "xdb", "anna"),
				"ownerReferences": []any{map[string]any{"apiVersion": composition, "kind": "Composition", "name": "xdb", "uid": "u1", "controller": true}}},
			"spec": map[string]any{"pipeline": pipeline, "revision": int64(2)}}),
		policies.RequirementComposition: resources(map[string]any{"apiVersion": composition, "kind": "Composition",
			"metadata": map[string]any{"name": "xdb", "uid": "u1", "generation": int64(2), "annotations": trace(composition, "Composition", "xdb", "anna")},
			"spec":     map[string]any{"pipeline": pipeline}}),
		policies.RequirementFunctions: resources(functionRevision("function-pt", "v1", "Active")),
		policies.RequirementSources: resources(map[string]any{"apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
			"metadata": map[string]any{"name": "function-pt", "generation": int64(2), "annotations": trace("pkg.crossplane.io/v1", "Function", "function-pt", "ben")},
			"spec":     map[string]any{"package": "v1"}}),
	}
	for name, tc := range map[string]struct {
		voter  string
		passes bool
	}{"OfTheComposition": {voter: "anna"}, "OfTheFunction": {voter: "ben"}, "Initiator": {voter: "hans"}, "Another": {voter: "olga", passes: true}} {
		t.Run(name, func(t *testing.T) {
			s, want, id := changedByComposition(t, found)
			for name, selector := range s.rsp.GetRequirements().GetExtraResources() { //nolint:staticcheck // For v1.20.
				if _, fetched := s.required[name]; !fetched {
					t.Errorf("%s is required, and not fetched: %v", name, selector)
				}
			}
			s.annotate(v1alpha1.AnnotationKeyClaims, fmt.Sprintf(
				`[{"content":"c","state":"open","generation":1,"at":%q,"digest":%q,"mode":"once","votes":true,"by":[{"user":%q,"at":"2026-01-01T00:00:00Z"}]}]`,
				t0.Format(time.RFC3339), id, tc.voter))
			s.reconcile(want)
			if passes := s.held("b") == nil; passes != tc.passes {
				t.Errorf("by the vote of %s it passes: %t", tc.voter, passes)
			}
		})
	}
}

// changedByComposition returns a stage where a webhook guards the composite of hans, and a new revision of its Composition changes b, which
// the function holds; with the id of that.
func changedByComposition(t *testing.T, found map[string]*fnv1.Resources) (s *stage, want desire, id string) {
	t.Helper()
	s = newStage(t, following)
	s.installed(found)
	crossplane := map[string]any{"compositionRef": map[string]any{"name": "xdb"}, "compositionRevisionRef": map[string]any{"name": "r2"}}
	require.NoError(t, unstructured.SetNestedMap(s.xr.Object, crossplane, "spec", "crossplane"))
	s.annotate(v1alpha1.AnnotationKeyTrace,
		fmt.Sprintf(`[{"apiVersion":"example.org/v1","kind":"XDatabase","name":"db","generation":1,"user":"hans","timestamp":%q}]`, t0.Format(time.RFC3339)))
	want = desire{"b": plain("x")}
	s.reconcile(want)
	annotations := s.live["b"].GetAnnotations()
	annotations[v1alpha1.AnnotationKeyUpdaters] = "0123456789abcdef" // the webhook guards it
	s.live["b"].SetAnnotations(annotations)
	s.annotate(v1alpha1.AnnotationKeySettledGeneration, "1")
	want["b"] = plain("y")
	s.reconcile(want)
	s.wantWrites("hold b")
	return s, want, strings.TrimPrefix(s.suggested()[0], v1alpha1.AnnotationKeyApprovePrefix)
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

// TestReportLacks covers KR-14-12: the line about a resource has what the votes lack, however long the message or the difference is.
func TestReportLacks(t *testing.T) {
	const lacks, approve = "1 of 2 approvals (anna); needs 1 more of group dba", "kubectl annotate x"
	long := strings.Repeat("x", 2000)
	res := &resource{name: "b", operation: admission.Update, outsideLacks: lacks,
		outside: &v1alpha1.DriftSpec{SuggestedApproval: approve, Difference: []v1alpha1.FieldDifference{{Path: "spec.a", Old: long, New: long}}}}
	for name, line := range map[string]string{
		"Held":     res.line(&admission.Decision{Answer: admission.Answer{Message: long, Suggestion: approve, Lacks: lacks, Reason: "Drift"}}),
		"External": res.outsideLine(),
	} {
		if !strings.Contains(line, lacks) || !strings.HasSuffix(line, approve) || len(line) > maxLine {
			t.Errorf("%s: %s", name, line)
		}
	}
}
