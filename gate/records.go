package gate

import (
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
	"github.com/kausality-io/function-kausality/internal/records"
)

// record a transition that was written.
func (r *reporter) record(o *states.Object, g gating.Managed, d gating.Decision) {
	if !r.records.Enabled() {
		return
	}
	t := transitionOf(o, mask.ParseGate(o.Annotations), d.Gate)
	t.Claims = map[parent.Ref]string{}
	for _, h := range g.Holders {
		t.Claims[h.State.Ref] = h.State.Annotations[v1alpha1.AnnotationKeyClaims]
	}
	if d.Claim != nil {
		t.Claims[d.Claim.Holder] = d.Claim.Value
	}
	if own := d.Edits[v1alpha1.AnnotationKeyClaims]; own != nil {
		t.Claims[o.State.Ref] = *own
	}
	r.records.Add(records.OfTransition(t))
}

// transitionOf the gate of an object.
func transitionOf(o *states.Object, was, is v1alpha1.Gate) records.Transition {
	return records.Transition{Object: o.State, External: o.ExternalName, Was: was, Is: is, At: clock.Now()}
}

// was is the gate of an object before; the zero one where nothing was known of it.
func was(old *states.Object) v1alpha1.Gate {
	if old == nil {
		return v1alpha1.Gate{}
	}
	return mask.ParseGate(old.Annotations)
}
