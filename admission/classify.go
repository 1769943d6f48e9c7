package admission

import (
	"github.com/kausality-io/function-kausality/admission/actor"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// classification of a change; the zero one before a parent is found.
type classification struct {
	class outcome.Class
	phase v1alpha1.Phase
	// digest of the difference.
	digest change.Digest
	// selfHealing: the child is replaced without a change of its parent's spec (KR-04-13).
	selfHealing bool
	// parents are the policies of the parent's kind; binding those of them that
	// existed when its intent was made (KR-06-13).
	parents, binding []*allowance.Compiled
}

// initializing reports whether the parent was never ready.
func (c *classification) initializing() bool { return c.phase == v1alpha1.PhaseInitializing }

// allowSelf allows what the object's own controller, or Crossplane's machinery,
// writes (KR-01-06, KR-05-02).
func allowSelf(ev *evaluation) (*outcome.Verdict, error) {
	if ev.Req.Operation != Update || ev.Req.Subresource == SubresourceScale || ev.Req.Actor != ActorUnknown {
		return nil, nil
	}
	if ev.Kind.Role == parent.RoleComposite && subject.IsClaimSync(ev.Manager) {
		return nil, nil
	}
	self, err := actor.IsController(ev.ctx, ev.Facts)
	if err != nil || !self {
		return nil, err
	}
	if !actor.MachineryOnly(ev.Facts) && ev.alsoParentController() {
		return nil, nil
	}
	return outcome.Allow(outcome.ClassSelf, outcome.ReasonSelf), nil
}

// alsoParentController reports whether the object's own controller is its parent's
// controller, too. Crossplane is, of nested composites; its field managers distinguish
// both roles. A parent that cannot be read has none (KR-04-07).
func (ev *evaluation) alsoParentController() bool {
	switch {
	case !ev.HasParent:
		return false
	case subject.IsComposedApply(ev.Manager), ev.Member && ev.Manager == subject.ManagerApplySet:
		return true
	case subject.IsCrossplaneMachinery(ev.Manager):
		return false
	}
	found := ev.lookUp()
	return found.view != nil && found.view.actor.Controller
}

// classifyChange determines the class of the change (docs/specification.md, section 4) (KR-04-08, KR-04-09, KR-04-10).
func classifyChange(ev *evaluation) (*outcome.Verdict, error) {
	p, actor := ev.parent(), ev.actor()
	known := ev.World.Settled(p.Ref)
	c := classification{
		phase:   settling.Phase(p, known, ev.World.Initialized(ev.ParentRef.GroupKind())...),
		digest:  ev.DifferenceDigest(p, ev.Changes),
		parents: ev.PolicySet().Of(ev.ParentRef.GroupKind()),
	}
	if h := ev.Req.Held; h != nil && h.Since.Generation > 0 { // it was drift: the parent had settled (KR-05-55)
		c.phase = v1alpha1.PhaseInitialized
	}
	c.binding = allowance.Since(c.parents, ev.view().intent.Timestamp.Time)
	switch {
	case !actor.Controller:
		c.class = outcome.ClassNewOrigin
	case len(c.binding) == 0 && parent.SelfHealing(ev.ParentRef.GroupKind(), ev.Req.Kind.GroupKind(), ev.Req.Deleted()):
		c.class, c.selfHealing = outcome.ClassExpected, true
	case ev.settled(known):
		c.class = outcome.ClassDrift
	default:
		c.class = outcome.ClassExpected
	}
	ev.class = c
	return nil, nil
}

// settled reports whether the parent settled since its last intent (KR-03-04).
func (ev *evaluation) settled(known int64) bool {
	p, intent := ev.parent(), ev.view().intent.Generation
	if ev.Options.ExpectUntil == ExpectUntilObserved {
		return p.HasObserved && p.ObservedGeneration >= intent
	}
	return settling.SettledAt(p, intent, known)
}

// effectiveClass returns the class after narrowing: what policies do not allow is drift (KR-04-14).
func (ev *evaluation) effectiveClass() outcome.Class {
	if len(ev.class.parents) > 0 && len(ev.narrowing().missing) > 0 {
		return outcome.ClassDrift
	}
	return ev.class.class
}
