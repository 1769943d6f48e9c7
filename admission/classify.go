package admission

import (
	"context"
	"fmt"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// classification of a change; the zero one before a parent is found.
type classification struct {
	class Class
	phase v1alpha1.Phase
	// id of the difference.
	id string
	// selfHealing: the child is replaced without a change of its parent's spec (KR-04-13).
	selfHealing bool
	// parents are the policies of the parent's kind; binding those of them that
	// existed when its intent was made (KR-06-13).
	parents, binding []*allowance.Compiled
}

func (c *classification) initializing() bool { return c.phase == v1alpha1.PhaseInitializing }

// selfWrite allows what the object's own controller, or Crossplane's machinery,
// writes (KR-01-06, KR-05-02).
func (ev *evaluation) selfWrite() (verdict, error) {
	if ev.req.Operation != Update || ev.req.Subresource == SubresourceScale || ev.req.Actor != ActorUnknown {
		return verdict{}, nil
	}
	if ev.kind.Role == parent.RoleComposite && subject.IsClaimSync(ev.manager) {
		return verdict{}, nil
	}
	self, err := ev.ownController()
	if err != nil || !self {
		return verdict{}, err
	}
	if !ev.machineryOnly() && ev.alsoParentController() {
		return verdict{}, nil
	}
	return ev.allowAs(ClassSelf, ReasonSelf), nil
}

// machineryOnly reports whether all changed fields are machinery (KR-01-05).
func (f *facts) machineryOnly() bool {
	spec, _ := f.req.Object.Object["spec"].(map[string]any)
	_, modern := spec["crossplane"]
	machinery := parent.Machinery(f.kind.Role, modern)
	return len(machinery) > 0 && change.OnlySpecFields(f.changes, machinery)
}

// ownController reports whether the user is the object's own controller: a machine
// that is recorded to write its status, or whose field manager does and that may
// (KR-01-07, KR-13-04).
func (ev *evaluation) ownController() (bool, error) {
	if !ev.mayBeController() {
		return false, nil
	}
	old := ev.req.OldObject
	if recorded, err := ev.writesStatus(ev.ctx, ev.req.Ref(), subject.ControllersOf(old.GetAnnotations())); recorded || err != nil {
		return recorded, err
	}
	shown := parent.WritesStatus(old, ev.manager) || ev.kind.Role == parent.RoleManaged && parent.Provides(ev.req.Object, ev.manager) ||
		subject.IsCrossplaneMachinery(ev.manager) && ev.machineryOnly() || ev.names() || ev.showsProvider()
	if !shown {
		return false, nil
	}
	return ev.mayUpdateStatus(ev.ctx, ev.req.Ref())
}

// metadataByController reports whether a write without a change of desired state
// is by the object's own controller, or by its parent's as far as the object shows.
func (ev *evaluation) metadataByController() bool {
	// Where it cannot be determined, the writer gets no more than a controller does.
	if own, err := ev.ownController(); own || err != nil {
		return true
	}
	updaters := subject.ParseHashes(identity.Annotation(ev.req.Stored(), v1alpha1.AnnotationKeyUpdaters))
	return ev.hasParent && ev.req.User.IsMachine() && updaters.Has(ev.hash())
}

// mayBeController reports whether the user is of a kind that controllers have.
func (f *facts) mayBeController() bool {
	u := f.req.User
	return u.IsMachine() || f.World.ControllerUser(u.Name)
}

// mayUpdateStatus reports whether the user may update the status of an object. What
// a field manager shows is a claim that this right bears out (KR-13-04).
func (f *facts) mayUpdateStatus(ctx context.Context, object parent.Ref) (bool, error) {
	if !f.mayBeController() {
		return false, nil
	}
	return f.hasStatusRight(ctx, object)
}

// hasStatusRight reports whether the user may update the status of an object.
func (f *facts) hasStatusRight(ctx context.Context, object parent.Ref) (bool, error) {
	may, err := f.World.MayUpdateStatus(ctx, f.req.User, object)
	if err != nil {
		return false, fmt.Errorf("cannot determine whether %s is a controller of %s: %w", f.req.User.Name, identity.Describe(object), err)
	}
	return may, nil
}

// alsoParentController reports whether the object's own controller is its parent's
// controller, too. Crossplane is, of nested composites; its field managers distinguish
// both roles. A parent that cannot be read has none (KR-04-07).
func (ev *evaluation) alsoParentController() bool {
	switch {
	case !ev.hasParent:
		return false
	case subject.IsComposedApply(ev.manager):
		return true
	case subject.IsCrossplaneMachinery(ev.manager):
		return false
	}
	found := ev.lookUp()
	return found.view != nil && found.view.actor.controller
}

// classify a change (docs/specification.md, section 4) (KR-04-08, KR-04-09, KR-04-10).
func (ev *evaluation) classify() (verdict, error) {
	p, actor := ev.parent(), ev.actor()
	known := ev.World.Settled(p.Ref)
	c := classification{
		phase:   settling.Phase(p, known, ev.World.Initialized(ev.parentRef.GroupKind())...),
		id:      ev.req.DifferenceID(p, ev.changes),
		parents: ev.policySet().Of(ev.parentRef.GroupKind()),
	}
	if h := ev.req.Held; h != nil && h.Since.Generation > 0 { // it was drift: the parent had settled (KR-05-55)
		c.phase = v1alpha1.PhaseInitialized
	}
	c.binding = allowance.Since(c.parents, ev.view().intent.Timestamp.Time)
	switch {
	case !actor.controller:
		c.class = ClassNewOrigin
	case len(c.binding) == 0 && parent.SelfHealing(ev.parentRef.GroupKind(), ev.req.Kind.GroupKind(), ev.req.Deleted()):
		c.class, c.selfHealing = ClassExpected, true
	case ev.settled(known):
		c.class = ClassDrift
	default:
		c.class = ClassExpected
	}
	ev.class = c
	return verdict{}, nil
}

// settled reports whether the parent settled since its last intent (KR-03-04).
func (ev *evaluation) settled(known int64) bool {
	p, intent := ev.parent(), ev.view().intent.Generation
	if ev.Options.ExpectUntil == ExpectUntilObserved {
		return p.HasObserved && p.ObservedGeneration >= intent
	}
	return settling.SettledAt(p, intent, known)
}

// effectiveClass is the class after narrowing: what policies do not allow is drift
// (KR-04-14).
func (ev *evaluation) effectiveClass() Class {
	if len(ev.class.parents) > 0 && len(ev.narrowing().missing) > 0 {
		return ClassDrift
	}
	return ev.class.class
}
