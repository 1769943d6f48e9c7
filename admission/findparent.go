package admission

import (
	"context"
	"errors"
	"fmt"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// parentView is a parent as it was read, and the actor in relation to it.
type parentView struct {
	state *parent.State
	set   approval.Set
	// freeze in force on it; nil for none.
	freeze *identity.Freeze
	// guarded: approvals on it count (KR-13-15); set has none where they do not.
	guarded bool
	// trace of the parent with the hop of its last intent at its end.
	trace trace.Trace
	// intent is that hop.
	intent v1alpha1.Hop
	actor  actor
}

// lookup of a parent.
type lookup struct {
	// view of the parent; nil where it could not be read.
	view *parentView
	// cached: the outcome is that of a cache.
	cached bool
	err    error
}

// look up the parent, once.
func (ev *evaluation) lookUp() *lookup {
	return ev.found.get(func() lookup {
		p, err := ev.World.Parent(ev.ctx, ev.parentRef, ev.live)
		if err == nil && !ev.linked(p) && !ev.live { // nothing passes for a Claim that was bound a moment ago
			p, err = ev.World.Parent(ev.ctx, ev.parentRef, true)
		}
		switch {
		case err == nil && !ev.linked(p):
			return lookup{cached: !ev.live, err: errNotLinked}
		case errors.Is(err, ErrNotFound):
			return lookup{cached: !ev.live, err: err}
		case err != nil:
			return lookup{err: err}
		}
		actor, err := ev.identify(ev.ctx, p)
		if err != nil {
			return lookup{err: err}
		}
		freeze, err := ev.freezeOf(p)
		if err != nil {
			return lookup{err: err}
		}
		read := ev.reading(p)
		view := &parentView{state: p, set: read.set.At(ev.req.Time), freeze: freeze, guarded: ev.World.Guarded(p), trace: read.trace,
			intent: *read.trace.Own(), actor: actor}
		if !view.guarded {
			view.set = view.set.WithoutApprovals()
		}
		ev.warnings.add(view.set.Warnings...)
		return lookup{view: view, cached: !ev.live}
	})
}

// view of the parent; nil before the parent was looked up, and where it could not
// be read.
func (ev *evaluation) view() *parentView {
	if !ev.found.known {
		return nil
	}
	return ev.found.value.view
}

// parent as it was read; nil where view is.
func (ev *evaluation) parent() *parent.State {
	if v := ev.view(); v != nil {
		return v.state
	}
	return nil
}

// actor; zero where there is no parent.
func (ev *evaluation) actor() actor {
	if v := ev.view(); v != nil {
		return v.actor
	}
	return actor{}
}

// errNotLinked is the outcome for a Claim that exists and does not reference the composite:
// it is not its parent (KR-01-03).
var errNotLinked = errors.New("it references another composite")

// linked reports whether a Claim that was found by its name references the composite.
func (f *facts) linked(p *parent.State) bool {
	return p.Role != parent.RoleClaim || p.ClaimTarget == "" || p.ClaimTarget == f.req.Ref().Name
}

// findParent reads the parent, and decides where it does not exist or cannot be read (KR-05-04).
func (ev *evaluation) findParent() (verdict, error) {
	found := ev.lookUp()
	switch {
	case found.err == nil:
		return verdict{}, nil
	case errors.Is(found.err, errNotLinked):
		return ev.inWindow(v1alpha1.AppliesToNewOrigin, ev.allowAs(ClassNewOrigin, ReasonNoParent)), nil
	case errors.Is(found.err, ErrNotFound):
		return ev.parentNotFound(), nil
	case ev.mode == v1alpha1.ModeLog:
		ev.warnings.add(fmt.Sprintf("parent %s cannot be read (%v); the change passes because the mode is log",
			identity.Describe(ev.parentRef), found.err))
		return ev.allow(ReasonParentUnreadable), nil
	}
	return ev.refuse(refusal{code: codeInternal, reason: ReasonParentUnreadable,
		why:  fmt.Sprintf("its parent %s cannot be read: %v", identity.Describe(ev.parentRef), found.err),
		next: ev.retry()}), nil
}

// retry is what to do where a parent cannot be read: controllers retry by themselves, and
// other users must.
func (ev *evaluation) retry() string {
	next := fmt.Sprintf("If it persists, the resource of %s must be in a Kausality policy, so that the webhook may read it.", ev.parentRef.Kind)
	if ev.mayBeController() {
		return "The controller retries by itself. " + next
	}
	return "Try again. " + next
}

// parentNotFound decides about a child whose parent does not exist (KR-05-03).
func (ev *evaluation) parentNotFound() verdict {
	if ev.req.Operation == Delete {
		return ev.allow(ReasonParentNotFound)
	}
	if ev.mode == v1alpha1.ModeLog {
		ev.warnings.add(fmt.Sprintf("parent %s does not exist; the change passes because the mode is log", identity.Describe(ev.parentRef)))
		return ev.allow(ReasonParentNotFound)
	}
	return ev.refuse(refusal{code: 422, reason: ReasonParentNotFound,
		why:  fmt.Sprintf("its parent %s does not exist", identity.Describe(ev.parentRef)),
		next: "Remove the ownerReference with controller: true, or create the parent first."})
}

// actor of a change.
type actor struct {
	// controller: it is the parent's controller.
	controller bool
	// undetermined: no identification rule matched.
	undetermined bool
	// composer: it is Crossplane, applying what a Composition has.
	composer bool
}

// identify whether the parent's controller makes the request: by the first rule
// that decides (KR-04-05, KR-04-06).
func (f *facts) identify(ctx context.Context, p *parent.State) (actor, error) {
	if f.req.Actor == ActorParentController {
		return actor{controller: true}, nil
	}
	is, decided, err := f.byComposedManager(ctx, p)
	if err != nil {
		return actor{}, err
	}
	composer := is && subject.IsComposedApply(f.manager)
	if f.Options.Identify == IdentifyUserHash && f.isComposedManager() {
		if composer, err = f.writesStatus(ctx, p.Ref, subject.ControllersOf(p.Annotations)); err != nil {
			return actor{}, err
		}
	}
	if !decided {
		if is, decided, err = f.byUserHash(ctx, p); err != nil {
			return actor{}, err
		}
	}
	if !decided {
		is, decided = f.byStatusManager(p)
	}
	return actor{controller: is, undetermined: !decided, composer: composer}, nil
}

// byComposedManager identifies Crossplane (KR-04-01, KR-04-02) by the field manager
// under which it writes, which any client can name: by a user whom the parent's record
// names or, where it has none yet, who may write its status (KR-13-04).
func (f *facts) byComposedManager(ctx context.Context, p *parent.State) (is, decided bool, err error) {
	if f.Options.Identify == IdentifyUserHash || f.manager == "" {
		return false, false, nil
	}
	claim := p.Role == parent.RoleClaim && subject.IsClaimSync(f.manager)
	composed := p.Role == parent.RoleComposite && f.isComposedManager()
	if !claim && !composed {
		return false, false, nil
	}
	known := subject.ControllersOf(p.Annotations)
	if is, err = f.writesStatus(ctx, p.Ref, known); is || err != nil || known.Known() {
		return is, true, err
	}
	is, err = f.mayUpdateStatus(ctx, f.parentRef)
	return is, true, err
}

// isComposedManager reports whether the field manager is that of Crossplane's applies
// for this very parent.
func (f *facts) isComposedManager() bool {
	return f.manager == subject.ComposedManager(f.parentRef.Name, f.parentRef.GroupKind())
}

// byUserHash compares the users that write the parent's status with those that
// change the child (KR-04-03). The first write of a child has no updaters yet.
func (f *facts) byUserHash(ctx context.Context, p *parent.State) (is, decided bool, err error) {
	hash := f.hash()
	if f.Options.Identify == IdentifyFieldManager || hash == "" {
		return false, false, nil
	}
	updaters := subject.ParseHashes(identity.Annotation(f.req.Stored(), v1alpha1.AnnotationKeyUpdaters))
	if f.req.Operation == Create {
		updaters = nil
	}
	known := subject.ControllersOf(p.Annotations)
	if writes, err := f.writesStatus(ctx, p.Ref, known); writes || err != nil || known.Known() {
		return writes && (len(updaters) == 0 || updaters.Has(hash)), true, err
	}
	switch {
	case f.req.Operation == Create:
		return true, true, nil
	case len(updaters) == 1 && updaters.Has(hash): // as other users may have (KR-13-41)
		is, err = f.hasStatusRight(ctx, p.Ref)
		return is, true, err
	case len(updaters) == 1:
		return false, true, nil
	}
	return false, false, nil
}

// byStatusManager compares field managers, for objects from before Kausality was
// installed (KR-04-04).
func (f *facts) byStatusManager(p *parent.State) (is, decided bool) {
	if f.Options.Identify == IdentifyUserHash || f.manager == "" || p.Manager == "" {
		return false, false
	}
	return f.manager == p.Manager, true
}

// writesStatus reports whether the user is recorded to write the status of an object, by
// a hash of 128 bits (KR-13-40). A short one that an earlier release recorded counts for
// users who may write the status, since names with that hash can be found (KR-13-41).
func (f *facts) writesStatus(ctx context.Context, object parent.Ref, known subject.Controllers) (bool, error) {
	if f.isRecorded(object, known) {
		return true, nil
	}
	if !known.HasHash(f.hash()) {
		return false, nil
	}
	return f.hasStatusRight(ctx, object)
}

// isRecorded reports whether the user's id is recorded, or was seen writing the status.
func (f *facts) isRecorded(object parent.Ref, known subject.Controllers) bool {
	return known.Has(f.id()) || f.World.StatusWriter(object, f.id())
}
