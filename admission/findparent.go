package admission

import (
	"errors"
	"fmt"

	"github.com/kausality-io/function-kausality/admission/actor"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
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
	// intent is that hop. It is not modified.
	intent *v1alpha1.Hop
	actor  actor.Actor
}

// lookup of a parent.
type lookup struct {
	// view of the parent; nil where it could not be read.
	view *parentView
	// cached: the outcome is that of a cache.
	cached bool
	err    error
}

// lookUp reads the parent, once.
func (ev *evaluation) lookUp() *lookup {
	return ev.found.Get(func() lookup {
		p, err := readParent(ev)
		switch {
		case errors.Is(err, facts.ErrNotLinked), errors.Is(err, ErrNotFound):
			return lookup{cached: !ev.live, err: err}
		case err != nil:
			return lookup{err: err}
		}
		who, err := actor.Identify(ev.ctx, ev.Facts, p)
		if err != nil {
			return lookup{err: err}
		}
		freeze, err := ev.FreezeOf(ev.ctx, p, ev.live)
		if err != nil {
			return lookup{err: err}
		}
		if !ev.shared.isOf(p) {
			read := Read(p)
			ev.shared = &read
		}
		read := ev.shared
		view := &parentView{state: p, set: read.set.At(ev.Req.Time), freeze: freeze, guarded: ev.World.Guarded(p), trace: read.trace,
			intent: read.trace.Own(), actor: who}
		if !view.guarded {
			view.set = view.set.WithoutApprovals()
		}
		ev.warnings.Add(view.set.Warnings...)
		return lookup{view: view, cached: !ev.live}
	})
}

// readParent reads the parent: that of an apply by kro, where the stored labels make none.
func readParent(ev *evaluation) (*parent.State, error) {
	p, err := facts.ReadParent(ev.ctx, ev.Facts, ev.live)
	if errors.Is(err, facts.ErrNotLinked) && ev.ParentOfApply() {
		return facts.ReadParent(ev.ctx, ev.Facts, ev.live)
	}
	return p, err
}

// view returns the view of the parent; nil before the parent was looked up, and where it could not be
// read.
func (ev *evaluation) view() *parentView {
	if !ev.found.Known {
		return nil
	}
	return ev.found.Value.view
}

// parent returns the parent as it was read; nil where view is.
func (ev *evaluation) parent() *parent.State {
	if v := ev.view(); v != nil {
		return v.state
	}
	return nil
}

// actor returns the actor of the request; the zero Actor where there is no parent.
func (ev *evaluation) actor() actor.Actor {
	if v := ev.view(); v != nil {
		return v.actor
	}
	return actor.Actor{}
}

// findParent reads the parent, and decides where it does not exist or cannot be read (KR-05-04).
func findParent(ev *evaluation) (*outcome.Verdict, error) {
	found := ev.lookUp()
	switch {
	case found.err == nil:
		return nil, nil
	case errors.Is(found.err, facts.ErrNotLinked):
		return inWindow(ev, v1alpha1.AppliesToNewOrigin, outcome.Allow(outcome.ClassNewOrigin, outcome.ReasonNoParent)), nil
	case errors.Is(found.err, ErrNotFound):
		return decideWithoutParent(ev), nil
	case ev.Mode == v1alpha1.ModeLog:
		ev.warnings.Add(fmt.Sprintf("parent %s cannot be read (%v); the change passes because the mode is log",
			identity.Describe(ev.ParentRef), found.err))
		return ev.allow(outcome.ReasonParentUnreadable), nil
	}
	return ev.refuse(outcome.Refusal{Code: outcome.CodeInternal, Reason: outcome.ReasonParentUnreadable,
		Why:  fmt.Sprintf("its parent %s cannot be read: %v", identity.Describe(ev.ParentRef), found.err),
		Next: retryParent(ev)}), nil
}

// retryParent returns what to do where a parent cannot be read: controllers retry by themselves, and
// other users must.
func retryParent(ev *evaluation) string {
	next := fmt.Sprintf("If it persists, the resource of %s must be in a Kausality policy, so that the webhook may read it.", ev.ParentRef.Kind)
	if ev.Req.User.IsMachine() {
		return "The controller retries by itself. " + next
	}
	return "Try again. " + next
}

// decideWithoutParent decides about a child whose parent does not exist (KR-05-03).
func decideWithoutParent(ev *evaluation) *outcome.Verdict {
	if ev.Req.Operation == Delete {
		return ev.allow(outcome.ReasonParentNotFound)
	}
	if ev.Mode == v1alpha1.ModeLog {
		ev.warnings.Add(fmt.Sprintf("parent %s does not exist; the change passes because the mode is log", identity.Describe(ev.ParentRef)))
		return ev.allow(outcome.ReasonParentNotFound)
	}
	return ev.refuse(outcome.Refusal{Code: 422, Reason: outcome.ReasonParentNotFound,
		Why:  fmt.Sprintf("its parent %s does not exist", identity.Describe(ev.ParentRef)),
		Next: "Remove the ownerReference with controller: true, or create the parent first."})
}
