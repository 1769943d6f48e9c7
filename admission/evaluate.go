package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Evaluator decides requests. It is safe for concurrent use.
type Evaluator struct {
	World   World
	Options Options
	// Policies of the cluster; nil for none.
	Policies Policies
	// Parent of many of the requests, read once for all of them; zero for none.
	Parent Reading
}

// Reading of the annotations of one State of a parent. It is not modified.
type Reading struct {
	state *parent.State
	set   approval.Set
	// trace as it is, the hop of the last intent at its end.
	trace trace.Trace
}

// Read the annotations of a parent that many requests have in common.
func Read(p *parent.State) Reading {
	return Reading{state: p, set: approval.Parse(p.Annotations), trace: trace.Current(p)}
}

// reading of a parent as it is.
func (e *Evaluator) reading(p *parent.State) Reading {
	if e.Parent.state == p {
		return e.Parent
	}
	return Read(p)
}

// Evaluate a request. The error says that the world could not be read in a way
// that spec 5 has no row for; the adapters then fail as the mode asks, which the
// Decision holds even then, empty where it is not known.
//
// Nobody is refused on a cache alone: a refusal that stands on cached state is
// decided again on the parent as it is (spec 5).
func (e *Evaluator) Evaluate(ctx context.Context, req *Request) (Decision, error) {
	ev := &evaluation{Evaluator: e, ctx: ctx, req: req}
	if err := ev.look(); err != nil {
		return Decision{}, err
	}
	d, err := ev.decide()
	if err == nil && ev.doubted() {
		d, err = ev.onParentAsItIs().decide()
	}
	return d, err
}

// Live decides on the parent as it is, never on a cache: for adapters that lost
// a race for an approval.
func (e *Evaluator) Live(ctx context.Context, req *Request) (Decision, error) {
	ev := &evaluation{Evaluator: e, ctx: ctx, req: req, live: true}
	if err := ev.look(); err != nil {
		return Decision{}, err
	}
	return ev.decide()
}

// evaluation of one request: what is known so far.
type evaluation struct {
	*Evaluator
	ctx context.Context //nolint:containedctx // Lives as long as the call it belongs to.
	req *Request
	question

	// mode in which it is decided: the object's own, but for a deletion that takes
	// others along. modeWarnings name annotations that say none that is known.
	mode         v1alpha1.Mode
	modeWarnings []string

	parent *parent.State
	set    approval.Set
	// trace of the parent as it is, the hop of its last intent, intent, at its end.
	trace  trace.Trace
	intent v1alpha1.Hop
	actor  actor
	id     string
	// asked of the approvals; nil until query makes it.
	asked *approval.Query
	// gov is what policies have to say; policySnapshot is the set they are from,
	// known once loaded.
	gov            governance
	policySnapshot *allowance.Set
	loaded         bool

	// live: the parent is read past every cache; cached: it was not.
	live, cached bool
	// deletionApproved: an approval for the external deletion was found, and
	// the gate is open already.
	deletionApproved bool

	// policyDeletes: a policy allows the external deletion; the gate is closed.
	policyDeletes bool

	// incoming and stored annotations, set once the request is admitted.
	incoming, stored map[string]string

	d Decision
}

// step of a decision; done ends it with the Decision as it is then.
type step func(*evaluation) (done bool, err error)

// steps in the order of spec 5: this list is the one place where it stands.
var steps = []step{
	(*evaluation).externalDeletion, // row 0, whoever asks
	(*evaluation).ownComponent,     // row 1
	(*evaluation).nothingToDecide,  // row 1
	(*evaluation).selfWrite,        // row 2
	(*evaluation).noParent,         // row 1
	(*evaluation).findParent,       // rows 3, 4
	(*evaluation).classify,
	(*evaluation).parentDeleting,     // row 5
	(*evaluation).parentFrozen,       // row 6
	(*evaluation).parentInitializing, // row 7
	(*evaluation).expected,           // row 8
	(*evaluation).rejected,           // row 9
	(*evaluation).upgraded,           // row 10
	(*evaluation).approved,           // row 11
	(*evaluation).excepted,           // row 12
	(*evaluation).drift,              // row 13
}

// decide by the steps. What a cache speaks against is decided again (doubted),
// and needs no edits.
func (ev *evaluation) decide() (Decision, error) {
	for _, s := range steps {
		done, err := s(ev)
		if err != nil {
			return Decision{Mode: ev.mode}, err
		}
		if done {
			break
		}
	}
	if ev.d.Allowed && !ev.doubted() {
		ev.edit()
	}
	ev.d.Mode, ev.d.Changes, ev.d.ID = ev.mode, ev.changes, ev.id
	ev.d.Warnings = append(ev.modeWarnings, ev.d.Warnings...)
	return ev.d, nil
}

// doubted: a cache alone speaks against the change.
func (ev *evaluation) doubted() bool {
	return ev.cached && (!ev.d.Allowed || ev.d.Class == ClassDrift || ev.d.Report != nil)
}

// onParentAsItIs is the evaluation of the same question anew, past every cache.
func (ev *evaluation) onParentAsItIs() *evaluation {
	return &evaluation{Evaluator: ev.Evaluator, ctx: ev.ctx, req: ev.req, live: true, question: ev.question,
		mode: ev.objectMode, modeWarnings: ev.objectWarnings}
}

// modeOf an object by precedence. A mode annotation that says nothing
// that is known counts as absent, and a warning names it (spec 2). While
// Kausality is being removed nothing counts.
func (ev *evaluation) modeOf(annotations map[string]string, namespace string, s settings.Settings) (v1alpha1.Mode, error) {
	if ev.Options.removing() {
		return v1alpha1.ModeLog, nil
	}
	ev.unknownMode("the object", v1alpha1.Mode(annotations[v1alpha1.AnnotationKeyMode]))
	return ModeOf(annotations, func() (v1alpha1.Mode, error) {
		if namespace == "" {
			return "", nil
		}
		m, err := ev.World.NamespaceMode(ev.ctx, namespace)
		if err != nil {
			return "", fmt.Errorf("cannot read mode of namespace %s: %w", namespace, err)
		}
		ev.unknownMode("namespace "+namespace, m)
		return m, nil
	}, s.Mode, ev.Options.DefaultMode)
}

func (ev *evaluation) unknownMode(on string, m v1alpha1.Mode) {
	if m == "" || known(m) {
		return
	}
	text := fmt.Sprintf("annotation %s of %s is %q, which is neither log nor enforce; it counts for nothing", v1alpha1.AnnotationKeyMode, on, m)
	if !slices.Contains(ev.modeWarnings, text) {
		ev.modeWarnings = append(ev.modeWarnings, text)
	}
}

func (ev *evaluation) allow(r Reason) (bool, error) {
	ev.d.Allowed, ev.d.Reason = true, r
	return true, nil
}

// desiredChange reports whether the request changes the desired state.
func (ev *evaluation) desiredChange() bool {
	return ev.req.Operation != Update || len(ev.changes) > 0
}

func (ev *evaluation) ownComponent() (bool, error) {
	if !ev.World.Component(ev.req.User, ev.req.FieldManager) {
		return false, nil
	}
	return ev.allow(ReasonComponent)
}

func (ev *evaluation) nothingToDecide() (bool, error) {
	switch {
	case !ev.desiredChange():
		return ev.allow(ReasonNoChange)
	case ev.req.Operation == Update && isDeleting(ev.req.OldObject):
		return ev.allow(ReasonBeingDeleted)
	}
	return false, nil
}

func (ev *evaluation) noParent() (bool, error) {
	if ev.hasParent {
		return false, nil
	}
	ev.d.Class = ClassNewOrigin
	return ev.allow(ReasonNoParent)
}

func (ev *evaluation) findParent() (bool, error) {
	if ev.parent != nil {
		return false, nil
	}
	p, err := ev.World.Parent(ev.ctx, ev.parentRef, ev.live)
	if err == nil && !ev.linked(p) {
		err = ErrNotFound
	}
	if err == nil {
		ev.parent, ev.cached = p, !ev.live
		read := ev.reading(p)
		ev.set, ev.trace, ev.intent = read.set, read.trace, *read.trace.Own()
		ev.d.Warnings = append(ev.d.Warnings, ev.set.Warnings...)
		ev.identify()
		return false, nil
	}
	ev.cached = !ev.live
	if errors.Is(err, ErrNotFound) {
		return ev.parentNotFound()
	}
	ev.cached = false
	if ev.mode == v1alpha1.ModeLog {
		ev.warn(fmt.Sprintf("parent %s cannot be read (%v); the change passes because the mode is log", identity.Describe(ev.parentRef), err))
		return ev.allow(ReasonParentUnreadable)
	}
	return ev.refuse(refusal{code: codeInternal, reason: ReasonParentUnreadable,
		why: fmt.Sprintf("its parent %s cannot be read: %v", identity.Describe(ev.parentRef), err), next: "The controller retries by itself."})
}

// linked reports whether a Claim found by its name is really the parent: it
// names the composite back.
func (ev *evaluation) linked(p *parent.State) bool {
	return p.Role != parent.RoleClaim || p.ClaimTarget == "" || p.ClaimTarget == ev.req.ref().Name
}

func (ev *evaluation) parentNotFound() (bool, error) {
	if ev.req.Operation == Delete {
		return ev.allow(ReasonParentNotFound)
	}
	if ev.mode == v1alpha1.ModeLog {
		ev.warn(fmt.Sprintf("parent %s does not exist; the change passes because the mode is log", identity.Describe(ev.parentRef)))
		return ev.allow(ReasonParentNotFound)
	}
	return ev.refuse(refusal{code: 422, reason: ReasonParentNotFound,
		why:  fmt.Sprintf("its parent %s does not exist", identity.Describe(ev.parentRef)),
		next: "Remove the ownerReference with controller: true, or create the parent first."})
}

func (ev *evaluation) parentDeleting() (bool, error) {
	if !ev.parent.Deleting() {
		return false, nil
	}
	return ev.deletingSection()
}

func (ev *evaluation) parentFrozen() (bool, error) {
	f := ev.set.Freeze
	if f == nil || ev.parent.Deleting() {
		return false, nil
	}
	return ev.refuse(frozen(ev.parentRef, ev.World.Kind(ev.parentRef.GroupVersionKind), f))
}

func (ev *evaluation) parentInitializing() (bool, error) {
	if len(ev.gov.binding) > 0 && ev.bound() && !ev.parent.Deleting() {
		return ev.initializingSection()
	}
	if ev.d.Phase != v1alpha1.PhaseInitializing {
		return false, nil
	}
	return ev.allow(ReasonInitializing)
}

func (ev *evaluation) expected() (bool, error) {
	switch ev.d.Class {
	case ClassExpected:
		if !ev.allowed() {
			return false, nil
		}
		return ev.allow(ev.actor.reason(ReasonExpected))
	case ClassNewOrigin:
		if ev.needsApproval() {
			return false, nil
		}
		return ev.allow(ev.actor.reason(ReasonNewOrigin))
	}
	return false, nil
}

// needsApproval: other actors than the parent's controller are treated as drift
// here (spec 4). Where nobody can tell who asks, nobody is.
func (ev *evaluation) needsApproval() bool {
	return ev.settings.RequireApproval && ev.d.Class == ClassNewOrigin && !ev.actor.undetermined
}

func (ev *evaluation) warn(text string) { ev.d.Warnings = append(ev.d.Warnings, text) }
