package gating

import (
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Shadow returns the external drift that the gate would hold in mode enforce while the mode is
// log, nil for none: the provider reverts it unless something stops it. It is derived from
// forProvider and atProvider (KR-08-55).
//
// equalAt is the generation at which nothing differed last, as far as the caller observed; 0
// for none. What differs at another generation may be a change of the managed resource that
// its provider has not carried out yet. equal is the new value of equalAt.
func (g Managed) Shadow(equalAt int64) (withheld *v1alpha1.DriftSpec, equal int64) {
	author := mask.AuthorOf(g.MR.Annotations, g.MR.ManagementPolicies)
	diff, _ := g.difference(author)
	switch {
	case g.Mode == v1alpha1.ModeEnforce, g.MR.Deleting(), g.MR.Paused, !mask.Maskable(author):
		return nil, 0
	case len(diff) == 0 && g.Comparable:
		return nil, g.MR.Generation
	case len(diff) == 0, equalAt != g.MR.Generation:
		return nil, equalAt
	}
	return g.whileClosed(author, v1alpha1.Gate{State: v1alpha1.GateClosed}).Drift, equalAt
}

// Shadow returns what the gate would hold in mode enforce while the mode is log, nil for
// none: a difference that is about no change of the object, or destroys (KR-08-55).
func (g Foreign) Shadow() *v1alpha1.DriftSpec {
	if g.Mode == v1alpha1.ModeEnforce || g.MR.Deleting() || g.View.State == external.StateFree {
		return nil
	}
	return g.shutStill(v1alpha1.Gate{State: v1alpha1.GateClosed}).Drift
}
