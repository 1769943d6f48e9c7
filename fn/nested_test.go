package fn

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/offline"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// nestedStage is a composite that another one composes, whose pipeline ends with
// Kausality too: its trace is stamped by that, and no webhook is anywhere.
func nestedStage(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, enforce)
	metadata := ssa.Child(s.xr.Object, "metadata")
	delete(metadata, "managedFields")
	metadata["ownerReferences"] = []any{map[string]any{
		"apiVersion": "example.org/v1", "kind": "XShop", "name": "shop", "uid": "shop-uid", "controller": true, "blockOwnerDeletion": true,
	}}
	s.fromAbove(1, 1, "")
	return s
}

// fromAbove comes a change of the nested composite: an intent on the outer one
// at a generation, composed a minute later. Without a name where it is created.
func (s *stage) fromAbove(outer, generation int64, name string) {
	at := s.now.Format(time.RFC3339)
	named := ""
	if name != "" {
		named = fmt.Sprintf(`"name":%q,`, name)
	}
	s.now = s.now.Add(time.Minute)
	s.annotate(v1alpha1.AnnotationKeyTrace, fmt.Sprintf(
		`[{"apiVersion":"example.org/v1","kind":"XShop","name":"shop","generation":%d,"user":"","unattributed":true,"timestamp":%q},`+
			`{"apiVersion":"example.org/v1","kind":"XDatabase",%s"generation":%d,"user":"system:serviceaccount:crossplane-system:crossplane","timestamp":%q}]`,
		outer, at, named, generation, at))
	s.xr.SetGeneration(generation)
	s.person("apiextensions.crossplane.io/composed/abc", "f:spec", "f:size")
}

// A nested composite settles by itself, and an unrequested change is held there as
// anywhere; what comes from above passes, with the whole chain in its trace (KR-09-14).
func TestNestedCompositeSettles(t *testing.T) {
	s := nestedStage(t)
	want := desire{"a": database(1), "b": plain("x")}
	s.reconcile(want)
	s.wantWrites("create a", "create b")
	s.xr.SetGeneration(3) // Crossplane's resourceRefs
	s.stable(want)
	s.settle(want)
	if got := s.trace("a"); len(got) != 3 || got[0].Kind != "XShop" || got[1].Name != "db" || got[1].Generation != 1 || !got[1].Settled {
		t.Errorf("trace: %s", got)
	}

	want["b"] = plain("y")
	s.reconcile(want)
	s.wantWrites("hold b")
	s.wantReason(v1alpha1.ConditionReasonHeld)
	s.stable(want)

	s.fromAbove(2, 4, "db")
	s.reconcile(want)
	s.wantReason(v1alpha1.ConditionReasonHeld) // it does not cause what was held before
	s.wantField("x", "b", "spec", "value")
	want["b"] = plain("z")
	s.reconcile(want)
	s.wantWrites("update b")
	s.wantReason(v1alpha1.ConditionReasonAllowed)
	if got := s.trace("b"); len(got) != 3 || got[0].Generation != 2 || got[1].Generation != 4 || got[1].Settled {
		t.Errorf("trace: %s", got)
	}
	s.xr.SetGeneration(5)
	s.stable(want)
	s.settle(want)
	s.wantNoteOf(4)

	// A user changes the nested one directly: an intent that is not the outer one's.
	s.now = s.now.Add(time.Hour)
	s.intend(7)
	want["a"] = database(7)
	s.reconcile(want)
	s.wantWrites("update a")
	if got := s.trace("a"); len(got) != 2 || !got[0].Unattributed || got[0].Generation != 6 {
		t.Errorf("trace: %s", got)
	}
	s.settle(want)
	s.wantNoteOf(6)
	want["a"] = database(8)
	s.reconcile(want)
	s.wantWrites("hold a")
}

func (s *stage) wantNoteOf(generation int64) {
	s.t.Helper()
	if got := offline.ConditionNote(s.xr.Object).Generation; got != generation {
		s.t.Errorf("settled at %d, want %d", got, generation)
	}
}

// That the outer composite settles later changes its hop, and nothing below.
func TestNestedCompositeKeepsItsTrace(t *testing.T) {
	s := nestedStage(t)
	want := desire{"b": plain("x")}
	s.reconcile(want)
	s.settle(want)
	stamped := trace.Of(s.xr.GetAnnotations())
	stamped[0].Settled = true
	s.annotate(v1alpha1.AnnotationKeyTrace, stamped.String())
	s.stable(want)
	want["c"] = plain("new")
	s.annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"Thing","name":"*","mode":"always"}]`)
	s.reconcile(want)
	s.wantWrites("create c")
	if d := cmp.Diff(s.trace("b")[:2], s.trace("c")[:2]); d != "" {
		t.Errorf("hops of the two composites: -older +newer\n%s", d)
	}
}

// With a webhook the trace is the webhook's, in a nested composite too, and so is the
// decision whether it settled.
func TestNestedCompositeWithWebhook(t *testing.T) {
	for _, key := range []string{
		v1alpha1.AnnotationKeyUpdaters, v1alpha1.AnnotationKeyControllers, v1alpha1.AnnotationKeyPhase, v1alpha1.AnnotationKeySettledGeneration,
	} {
		t.Run(key, func(t *testing.T) {
			s := nestedStage(t)
			s.annotate(key, map[string]string{v1alpha1.AnnotationKeyPhase: "initialized", v1alpha1.AnnotationKeySettledGeneration: "0"}[key])
			if s.xr.GetAnnotations()[key] == "" {
				s.annotate(key, "abcde")
			}
			want := desire{"b": plain("x")}
			s.reconcile(want)
			s.ready()
			s.now = s.now.Add(time.Hour)
			s.stable(want)
			want["b"] = plain("y")
			s.reconcile(want)
			s.wantWrites("update b") // the webhook has not recorded that it settled
		})
	}
}

// The audit finds nothing wrong with a nested composite that settled.
func TestNestedCompositeIsAudited(t *testing.T) {
	s := nestedStage(t)
	ssa.Child(s.xr.Object, "spec")["crossplane"] = map[string]any{} // by which one knows an XR
	want := desire{"b": plain("x")}
	s.reconcile(want)
	s.xr.SetGeneration(3)
	if d := cmp.Diff([]input.FindingReason{input.FindingUnsettled}, reasons(s.audit(t), "db")); d != "" {
		t.Errorf("before it settled: -want +got\n%s", d)
	}
	s.settle(want)
	if d := cmp.Diff([]input.FindingReason(nil), reasons(s.audit(t), "db")); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	s.now = s.now.Add(time.Hour)
	s.intend(2)
	if d := cmp.Diff([]input.FindingReason{input.FindingUnattributed, input.FindingUnsettled}, reasons(s.audit(t), "db")); d != "" {
		t.Errorf("changed directly: -want +got\n%s", d)
	}
}
