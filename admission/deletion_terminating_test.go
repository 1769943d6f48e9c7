package admission

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A managed resource that is being deleted is not changed so that its provider deletes
// what it would have left, unless that deletion is approved (KR-13-60).
func TestTerminatingDeletion(t *testing.T) {
	waits := fx.With(fx.Unmasked(), fx.Policies(), fx.Deleting)
	all, orphan := fx.Policies("*"), fx.Set("Orphan", "spec", "deletionPolicy")
	masked := fx.With(fx.Instance(), fx.Deleting)
	cases := map[string]struct {
		reason  string
		before  *unstructured.Unstructured
		mods    []fx.Mod
		user    subject.User
		manager string
		opts    Options
		want    bool
	}{
		"Resumed":  {reason: "the deletion waited", before: waits, mods: []fx.Mod{all}, opts: enforced()},
		"Explicit": {reason: "with a list that holds Delete", before: waits, mods: []fx.Mod{fx.Policies(fx.Observe, fx.Delete)}, opts: enforced()},
		"Observed": {reason: "what is observed alone is left behind", before: waits, mods: []fx.Mod{fx.Policies(fx.Observe)}, opts: enforced(), want: true},
		"Ours":     {reason: "another list than the author's", before: masked, mods: []fx.Mod{fx.Policies(fx.Observe, fx.Delete)}, opts: enforced()},
		"ReApplied": {reason: "the author's value again: the stored one is kept", before: masked, mods: []fx.Mod{all},
			opts: enforced(), want: true},
		"Braked": {reason: "paused while its approved deletion was under way", before: fx.With(fx.Instance(), open, fx.Deleting, fx.Policies()),
			mods: []fx.Mod{all}, opts: enforced()},
		"Policy": {reason: "a deletionPolicy that is not Orphan any more", before: fx.With(fx.Unmasked(), fx.Deleting, orphan),
			mods: []fx.Mod{fx.Set("Delete", "spec", "deletionPolicy")}, opts: enforced()},
		"PolicyStays": {reason: "deletionPolicy Orphan outranks *", before: fx.With(waits, orphan), mods: []fx.Mod{all}, opts: enforced(), want: true},
		"Composed": {reason: "of a composed apply the stored value is kept", before: waits, mods: []fx.Mod{all}, user: fx.Crossplane,
			manager: "apiextensions.crossplane.io/composed/x", opts: enforced(), want: true},
		"Open": {reason: "its deletion was under way", before: fx.With(fx.Instance(), open, fx.Deleting),
			mods: []fx.Mod{fx.Set("x", "spec", "forProvider", "size")}, opts: enforced(), want: true},
		"Log": {reason: "mode log refuses nothing", before: waits, mods: []fx.Mod{all}, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.user.Name == "" {
				tc.user, tc.manager = fx.Alice, "kubectl"
			}
			d := decide(t, setting{}.world(), tc.opts, by(byCrossplane(Update, tc.before, tc.mods...), tc.user, tc.manager))
			if d.Allowed != tc.want {
				t.Fatalf("%s: allowed %t (%s): %s", tc.reason, d.Allowed, d.Reason, d.Message)
			}
			if tc.want {
				return
			}
			if d.Reason != outcome.ReasonExternalDeletion || !strings.Contains(d.Message, "approve-"+d.Digest.ID()) {
				t.Errorf("%s: %s: %s", tc.reason, d.Reason, d.Message)
			}
			approved := setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+d.Digest.ID(), "once")}}.world()
			req := by(byCrossplane(Update, tc.before, tc.mods...), tc.user, tc.manager)
			if d = decide(t, approved, tc.opts, req); !d.Allowed || d.Claim == nil {
				t.Errorf("%s, approved: %s, claim %v", tc.reason, d.Message, d.Claim)
			}
			if stored := parent.PoliciesOf(apply(req.Object, d)); !mask.Gives(stored, v1alpha1.VerbDelete) {
				t.Errorf("%s, approved: stored as %v", tc.reason, stored)
			}
		})
	}
}
