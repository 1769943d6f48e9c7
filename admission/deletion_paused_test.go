package admission

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestDeletePaused covers KR-13-66: what is paused is deleted with an approval alone, by itself and below a composite.
func TestDeletePaused(t *testing.T) {
	paused := fx.With(fx.Instance(), fx.Policies(), fx.Unannotate(v1alpha1.AnnotationKeyManagementPolicies, v1alpha1.AnnotationKeyGate))
	mr, xr := parent.Sum(paused, parent.RoleManaged), parent.Sum(fx.Composite(), parent.RoleComposite)
	approve := func(id string) fx.Mod { return fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+id, "once") }
	own, whole := approve(identity.DeletionDigest(xr, mr).ID()), approve(identity.WholeOf(xr, []*parent.State{mr}).Digest.ID())
	cases := map[string]struct {
		reason  string
		xr      []fx.Mod
		mr      []fx.Mod
		delete  *unstructured.Unstructured // the managed resource where nil
		allowed bool
	}{
		"Refused":         {reason: "a pause is no approval"},
		"Approved":        {reason: "of its own", xr: []fx.Mod{own}, allowed: true},
		"Whole":           {reason: "of all below its composite", xr: []fx.Mod{whole}, allowed: true},
		"WholeOfAnother":  {reason: "of a list without it", xr: []fx.Mod{approve(identity.WholeOf(xr, nil).Digest.ID())}},
		"Frozen":          {reason: "a freeze holds", xr: []fx.Mod{own, fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true")}},
		"Orphaned":        {reason: "to leave it behind is a request of its own", mr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyDeletion, "orphan")}, allowed: true},
		"OrphanPolicy":    {reason: "as by its deletionPolicy", mr: []fx.Mod{fx.Set("Orphan", "spec", "deletionPolicy")}, allowed: true},
		"Composite":       {reason: "nor is it one for its composite", delete: fx.Composite()},
		"CompositeWhole":  {reason: "which an approval of all accepts at once: no gate opens before", delete: fx.With(fx.Composite(), whole), allowed: true},
		"CompositeFrozen": {reason: "but for a freeze", delete: fx.With(fx.Composite(), whole, fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true"))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w, o := setting{xr: tc.xr}.world(), fx.With(paused, tc.mr...)
			w.managed = []*parent.State{parent.Sum(o, parent.RoleManaged)}
			if tc.delete != nil {
				o = tc.delete
			}
			d := decide(t, w, enforced(), by(byCrossplane(Delete, o), fx.Alice, ""))
			if d.Allowed != tc.allowed {
				t.Errorf("%s: allowed %t: %s", tc.reason, d.Allowed, d.Message)
			}
			if d.Claim != nil {
				t.Errorf("%s: the approval is used before its provider goes on", tc.reason)
			}
			if name == "Refused" && !strings.Contains(d.Message, "it is paused by managementPolicies: []") {
				t.Errorf("the message does not name the pause: %s", d.Message)
			}
		})
	}
}

// TestResumeDeletionUnderWay: a pause with [] stops a deletion that an open gate carries out already, and what that has used does not
// resume it (KR-13-60).
func TestResumeDeletionUnderWay(t *testing.T) {
	paused := fx.With(fx.Instance(), append(openForDelete, fx.Policies(), fx.Deleting)...)
	mr, xr := parent.Sum(fx.With(paused, fx.Policies("*")), parent.RoleManaged), parent.Sum(fx.Composite(), parent.RoleComposite)
	own, whole := identity.DeletionDigest(xr, mr).ID(), identity.WholeOf(xr, []*parent.State{mr}).Digest.ID()
	resume := func(xr ...fx.Mod) Decision {
		w := setting{xr: xr}.world()
		w.managed = []*parent.State{mr}
		return decide(t, w, enforced(), by(byCrossplane(Update, paused, fx.Policies("*")), fx.Alice, "kubectl"))
	}
	if d := resume(); d.Allowed || !strings.Contains(d.Message, own+"=once") {
		t.Errorf("without an approval: allowed %t: %s", d.Allowed, d.Message)
	}
	for id, mode := range map[string]string{own: "always", whole: "once"} {
		if d := resume(fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+id, mode)); !d.Allowed || d.Claim != nil {
			t.Errorf("an approval that lasts: allowed %t, claim %v: %s", d.Allowed, d.Claim, d.Message)
		}
	}
	once := fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+own, "once")
	d := resume(once)
	if !d.Allowed || d.Claim == nil {
		t.Fatalf("an approval that is still to be used: %s", d.Message)
	}
	used := strings.Replace(d.Claim.Value, `"pending"`, `"used"`, 1)
	if d := resume(once, fx.Annotate(v1alpha1.AnnotationKeyClaims, used)); d.Allowed || !strings.Contains(d.Message, "once: again, after") {
		t.Errorf("a used approval: allowed %t: %s", d.Allowed, d.Message)
	}
}

// What was approved while it was paused is used when its author lets it go on (KR-13-66, KR-13-60).
func TestResumeAfterApprovedDeletion(t *testing.T) {
	paused := fx.With(fx.Instance(), fx.Policies(), fx.Deleting, fx.Unannotate(v1alpha1.AnnotationKeyManagementPolicies, v1alpha1.AnnotationKeyGate))
	resumed := fx.With(paused, fx.Policies("*"))
	mr, xr := parent.Sum(resumed, parent.RoleManaged), parent.Sum(fx.Composite(), parent.RoleComposite)
	for name, tc := range map[string]struct{ id, claims string }{
		"Own":   {id: identity.DeletionDigest(xr, mr).ID(), claims: "taken"},
		"Whole": {id: identity.WholeOf(xr, []*parent.State{mr}).Digest.ID()}, // ends with the composite
		"None":  {id: "0123456789abcdef"},
	} {
		t.Run(name, func(t *testing.T) {
			w := setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+tc.id, "once")}}.world()
			w.managed = []*parent.State{mr}
			d := decide(t, w, enforced(), by(byCrossplane(Update, paused, fx.Policies("*")), fx.Alice, "kubectl"))
			if d.Allowed != (name != "None") || (d.Claim != nil) != (tc.claims != "") {
				t.Errorf("allowed %t, claim %v: %s", d.Allowed, d.Claim, d.Message)
			}
		})
	}
}
