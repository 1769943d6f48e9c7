package admission

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// gatingOf a managed resource and its composite, at noon, as the gate controller
// passes it to Decide.
func gatingOf(mr, xr *unstructured.Unstructured) gating.Managed {
	s := parent.Sum(mr, parent.RoleManaged)
	kind := func(o *unstructured.Unstructured) identity.Kind {
		return fx.KindOf(o.GroupVersionKind().GroupKind())
	}
	return gating.Managed{
		MR: s, Kind: kind(mr), Mode: v1alpha1.ModeEnforce, Deadline: time.Hour, User: "gate", Now: fx.Noon,
		Observed: gating.Observed{Difference: external.Difference(mr.Object), Comparable: external.Comparable(mr.Object)},
		Holders: []identity.Holder{{State: s, Kind: kind(mr)}, {State: parent.Sum(xr, parent.RoleComposite), Kind: kind(xr),
			Whole: func() (identity.Whole, bool) {
				return identity.WholeOf(parent.Sum(xr, parent.RoleComposite), []*parent.State{s}), true
			}}},
	}
}

// An accepted change between the closing of a gate and the end of its claim keeps
// the use on record: the claim does not open the gate a second time.
func TestGate_AcceptedChangeKeepsUse(t *testing.T) {
	drifted := fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Tampered)
	id := gatingOf(drifted, fx.Composite()).Decide().Drift.ID
	approved := fx.With(fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+id, "once"))
	first := gatingOf(drifted, approved).Decide()
	if first.Action != gating.ActionOpen || first.Claim == nil {
		t.Fatalf("want an opening with a claim, got %+v", first)
	}
	claimed := fx.With(approved, fx.Annotate(v1alpha1.AnnotationKeyClaims, first.Claim.Value))
	shut := fx.With(drifted, fx.GateValue(`{"state":"closed","verbs":["Update"],"generation":4,"at":"2026-01-02T11:30:00Z",`+
		`"claim":"`+first.Claim.ID+`","reason":"Confirmed"}`))
	req := by(byCrossplane(Update, shut, fx.Resize("l")), fx.Alice, "kubectl")
	w := newWorld()
	w.add(claimed)
	after := apply(req.Object, decide(t, w, enforced(), req))
	again := strings.Replace(identity.Annotation(after, v1alpha1.AnnotationKeyGate), `"open"`, `"closed"`, 1)
	if d := gatingOf(fx.With(after, fx.GateValue(again)), claimed).Decide(); d.Action == gating.ActionOpen {
		t.Errorf("the claim opens the gate a second time: %+v", d.Gate)
	}
}

// An approval of a composite's deletion opens the gates of the managed resources that it covers, each with the external resource that it had then, and
// of no other (KR-13-64).
func TestGate_WholeOpensItsMembers(t *testing.T) {
	root := parent.Sum(fx.Composite(), parent.RoleComposite)
	member := fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.GateValue(`{"state":"closed","verbs":["Update"],"generation":3,"at":"2026-01-02T11:30:00Z"}`))
	other := fx.With(member, fx.Annotate(v1alpha1.AnnotationKeyExternalName, "prod-db"))
	for name, tc := range map[string]struct {
		covers []*unstructured.Unstructured
		opens  bool
	}{
		"Member":                  {covers: []*unstructured.Unstructured{member}, opens: true},
		"NoMember":                {},
		"AnotherExternalResource": {covers: []*unstructured.Unstructured{other}},
	} {
		t.Run(name, func(t *testing.T) {
			var below []*parent.State
			for _, o := range tc.covers {
				below = append(below, parent.Sum(o, parent.RoleManaged))
			}
			whole := identity.WholeOf(root, below)
			g := gatingOf(member, fx.With(fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+whole.Digest.ID(), "once")))
			g.Holders[1].Whole = func() (identity.Whole, bool) { return whole, true }
			d := g.Decide()
			if opens := d.Action == gating.ActionOpen && strings.Contains(fx.Joined(d.Gate.Verbs), string(v1alpha1.VerbDelete)); opens != tc.opens {
				t.Errorf("opens %t, want %t: %+v", opens, tc.opens, d)
			}
		})
	}
}
