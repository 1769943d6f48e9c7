package admission

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/deletion"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Evaluator decides requests. It is safe for concurrent use.
type Evaluator struct {
	// World is not nil.
	World   World
	Options Options
	// Policies of the cluster; nil for none.
	Policies Policies
	// Parent of many of the requests, read once for all of them; zero for none.
	Parent Reading
}

// errNoWorld is what NewEvaluator returns where it is given nothing to read.
var errNoWorld = errors.New("cannot decide without a World")

// NewEvaluator returns an Evaluator that reads a World. Policies may be nil.
func NewEvaluator(w World, o Options, p Policies) (*Evaluator, error) {
	if w == nil {
		return nil, errNoWorld
	}
	return &Evaluator{World: w, Options: o, Policies: p}, nil
}

// Reading of the annotations of one State of a parent. It is not modified.
type Reading struct {
	state *parent.State
	set   approval.Set
	// trace with the hop of the last intent at its end.
	trace trace.Trace
}

// Read parses the annotations of a parent that many requests have in common.
func Read(p *parent.State) Reading {
	return Reading{state: p, set: approval.Parse(p.Annotations), trace: trace.Current(p)}
}

// isOf reports whether a parent was read: the same State, or one of the same version.
func (r *Reading) isOf(p *parent.State) bool {
	return r.state == p || r.state != nil && p.ResourceVersion != "" && r.state.UID == p.UID && r.state.ResourceVersion == p.ResourceVersion &&
		maps.Equal(r.state.Annotations, p.Annotations)
}

// Evaluate decides about a request. It returns an error only if it could not decide; a refusal is a
// Decision. The caller then applies the failure behaviour of the mode, which the Decision holds even
// then, empty where it is unknown.
//
// No request is refused from a cache alone (KR-05-20): a refusal that is based on a cached parent is
// decided again on the live one.
func (e *Evaluator) Evaluate(ctx context.Context, req *Request) (Decision, error) {
	f, err := facts.Collect(ctx, e.World, &e.Options, e.Policies, req)
	if err != nil {
		return Decision{}, err
	}
	ev := &evaluation{Facts: f, ctx: ctx, shared: &e.Parent}
	d, err := ev.decide()
	if err == nil && ev.needsLiveRecheck(d) {
		d, err = (&evaluation{Facts: f, ctx: ctx, shared: ev.shared, live: true}).decide()
	}
	return d, err
}

// Live decides on the live parent, never on a cache: for adapters that lost a race
// for an approval.
func (e *Evaluator) Live(ctx context.Context, req *Request) (Decision, error) {
	f, err := facts.Collect(ctx, e.World, &e.Options, e.Policies, req)
	if err != nil {
		return Decision{}, err
	}
	return (&evaluation{Facts: f, ctx: ctx, shared: &e.Parent, live: true}).decide()
}

// step of a decision. A nil verdict leaves the decision to the next step; an
// error means that the step could not decide.
type step func(*evaluation) (*outcome.Verdict, error)

// The steps in the order of the decision table of docs/specification.md, section 5.
//
// parentSteps decide by the request and its parent, whatever the change is; what is held of it is separated after them
// (KR-05-55). changeSteps decide about the change, or about each half of it.
var parentSteps = []step{
	decideDeletion,      // KR-05-00, by any user
	allowComponent,      // KR-05-01
	keepFinalizer,       // KR-13-53
	allowNoChange,       // KR-05-01
	refuseStaleCreation, // KR-08-16
	refuseOutdated,      // KR-05-70
	allowSelf,           // KR-05-02
	allowWithoutParent,  // KR-05-01
	findParent,          // KR-05-03, KR-05-04
	classifyChange,
	leaveToLive,        // KR-05-20
	refuseBelowDeleted, // KR-05-69
	allowBelowDeleted,  // KR-05-05
	refuseFrozen,       // KR-05-06
	allowInitializing,  // KR-05-07
}

var changeSteps = []step{
	allowExpected,  // KR-05-08
	refuseRejected, // KR-05-09
	allowUpgrade,   // KR-05-10
	allowApproved,  // KR-05-11
	allowByPolicy,  // KR-05-12
	decideDrift,    // KR-05-13
}

// evaluation is one pass over the steps. Each of its fields has one writer; a memo
// is computed by the first step that needs it.
type evaluation struct {
	*facts.Facts
	ctx context.Context //nolint:containedctx // Lives as long as the call it belongs to.
	// shared is what was read of a parent, also for other requests and for the pass before; written by findParent.
	shared *Reading
	// live: the parent is read past every cache.
	live bool

	// deletion is what was found about the external resources of a DELETE; written by decideDeletion.
	deletion deletion.Finding
	// found parent, or why there is no parent.
	found facts.Memo[lookup]
	// class of the change and what policies bind it; written by classifyChange.
	class classification
	// half of a change that is decided.
	half half
	// narrowed by AllowancePolicies.
	narrowed facts.Memo[*narrowing]
	// allowances of the parent that are not consumed.
	allowances facts.Memo[allowance.Entries]
	// question to the parent's approvals.
	question facts.Memo[*approval.Query]
	// polled is what ApprovalRules require for the change.
	polled facts.Memo[*approve.Poll]
	// calling is the build of the controller that makes the request.
	calling facts.Memo[allowance.Build]
	// causes of a change that counts as drift.
	causes facts.Memo[causes]
	// reported are these causes with the edits that the change reverts.
	reported facts.Memo[[]v1alpha1.HopCause]
	// variables of expressions about the request.
	variables facts.Memo[*expression.Input]
	// unevaluated rules of ApprovalPolicies; written by allowByPolicy.
	unevaluated []string
	// warnings in the order in which they came up.
	warnings outcome.Warnings
}

// warned returns the warnings, for decisions of other packages to add to.
func (ev *evaluation) warned() *outcome.Warnings { return &ev.warnings }

// decide makes the Decision, step by step. A Decision that needs a live recheck gets no edits.
func (ev *evaluation) decide() (Decision, error) {
	out, err := decideChange(ev)
	if err != nil {
		return Decision{Answer: Answer{Mode: ev.Mode}}, err
	}
	d := decisionOf(out.of, out.Verdict)
	if d.Allowed && !d.Unchanged && !ev.needsLiveRecheck(d) {
		d = editObject(out.of, out.Verdict, d)
	}
	d.Warnings = slices.Concat(out.of.ModeWarnings, out.warned, out.of.warnings)
	return d, nil
}

// decideChange runs the steps until one decides.
func decideChange(ev *evaluation) (conclusion, error) {
	v, err := decideBy(ev, parentSteps)
	if err != nil || v != nil {
		return conclusion{of: ev, Verdict: v}, err
	}
	out, err := decideHalves(ev)
	if err != nil {
		return conclusion{}, err
	}
	return putAllBack(out)
}

// decideBy returns the first verdict of some steps; nil if none decides.
func decideBy(ev *evaluation, steps []step) (*outcome.Verdict, error) {
	for _, s := range steps {
		if v, err := s(ev); err != nil || v != nil {
			return v, err
		}
	}
	return nil, nil
}

// needsLiveRecheck reports whether the outcome is a refusal, drift, an approval or a report
// that is based on cached state of the parent (KR-05-20).
func (ev *evaluation) needsLiveRecheck(d Decision) bool {
	return ev.cached() && (!d.Allowed || d.Class == outcome.ClassDrift || d.Resolution == outcome.ResolutionApproved || d.Report != nil || d.Held != nil)
}

// cached reports whether the decision is based on a parent from a cache.
func (ev *evaluation) cached() bool {
	switch {
	case ev.live:
		return false
	case ev.found.Known:
		return ev.found.Value.cached
	}
	return ev.deletion.Cached
}

// allowComponent allows writes by processes of Kausality (KR-04-15, KR-05-01).
func allowComponent(ev *evaluation) (*outcome.Verdict, error) {
	if !ev.World.Component(ev.Req.User, ev.Req.FieldManager) {
		return nil, nil
	}
	return ev.allow(outcome.ReasonComponent), nil
}

// decideDeletion decides about what the object represents outside the cluster.
func decideDeletion(ev *evaluation) (v *outcome.Verdict, err error) {
	v, ev.deletion, err = deletion.Decide(ev.ctx, ev.Facts, ev.live, ev.warned())
	return v, err
}

// keepFinalizer decides about the finalizer by which a provider deletes the external resource.
func keepFinalizer(ev *evaluation) (*outcome.Verdict, error) {
	return deletion.KeepFinalizer(ev.ctx, ev.Facts, ev.warned())
}

// refuseStaleCreation refuses a composed creation that carries the gate of an object that
// is gone (KR-08-16). The composition function copied it, and the author's value,
// from a stale read of that object: what the Composition has by now is unknown.
func refuseStaleCreation(ev *evaluation) (*outcome.Verdict, error) {
	if ev.Req.Operation != Create || !ev.Kind.ManagementPolicies || ev.Mode != v1alpha1.ModeEnforce || !subject.IsComposedApply(ev.Manager) ||
		identity.Annotation(ev.Req.Object, v1alpha1.AnnotationKeyGate) == "" { // as most are
		return nil, nil
	}
	gate := mask.ParseGate(map[string]string{v1alpha1.AnnotationKeyGate: identity.Annotation(ev.Req.Object, v1alpha1.AnnotationKeyGate)})
	if gate.State == "" || gate.Reason == v1alpha1.GateReasonCreated && gate.Generation <= 1 {
		return nil, nil
	}
	return ev.refuse(outcome.Refusal{Code: outcome.CodeComposed, Reason: outcome.ReasonStaleRead,
		Why: "it was composed from a managed resource of that name that no longer exists", Next: "Crossplane composes it again by itself."}), nil
}

// refuseOutdated refuses an apply by the composition function that read the object before its last change: what it holds back is
// stored already, and would be reverted (KR-05-70).
func refuseOutdated(ev *evaluation) (*outcome.Verdict, error) {
	if ev.Mode != v1alpha1.ModeEnforce || !facts.Outdated(ev.Facts) {
		return nil, nil
	}
	return ev.refuse(outcome.Refusal{Code: outcome.CodeComposed, Reason: outcome.ReasonStaleRead,
		Why: "it was composed from a read before the last change", Next: "Crossplane composes it again by itself."}), nil
}

// allowNoChange allows what changes no desired state, and updates and further deletions
// of an object that is being deleted (KR-05-01).
func allowNoChange(ev *evaluation) (*outcome.Verdict, error) {
	switch {
	case !ev.DesiredChange():
		return ev.allow(outcome.ReasonNoChange), nil
	case ev.Req.Operation != Create && identity.IsDeleting(ev.Req.OldObject):
		return ev.allow(outcome.ReasonBeingDeleted), nil
	}
	return nil, nil
}

// allowWithoutParent allows changes of objects without a controlling owner, in the windows that bind them (KR-05-01, KR-14-21).
func allowWithoutParent(ev *evaluation) (*outcome.Verdict, error) {
	if ev.HasParent {
		return nil, nil
	}
	return inWindow(ev, v1alpha1.AppliesToNewOrigin, outcome.Allow(outcome.ClassNewOrigin, outcome.ReasonNoParent)), nil
}

// leaveToLive ends the pass over a cached parent where the change is drift: whatever this pass found, it would be decided again on the
// live parent (KR-05-20). So is what Crossplane begins to compose: it may have read the composite before that was deleted (KR-05-69).
func leaveToLive(ev *evaluation) (*outcome.Verdict, error) {
	if !ev.cached() || ev.effectiveClass() != outcome.ClassDrift && !beginsToCompose(ev) {
		return nil, nil
	}
	return &outcome.Verdict{Answer: outcome.Answer{Class: outcome.ClassDrift, Reason: outcome.ReasonDrift}}, nil
}

// beginsToCompose reports whether Crossplane creates an object of a composite, or adopts one that a user created.
func beginsToCompose(ev *evaluation) bool {
	return subject.IsComposedApply(ev.Manager) &&
		(ev.Req.Operation == Create || ev.Req.Operation == Update && !parent.SameController(ev.Req.OldObject, ev.Req.Object))
}

// refuseBelowDeleted refuses what Crossplane begins to compose from a composite that it read before that was deleted: from one that is
// being deleted it composes nothing. A managed resource would be created outside, and its deletion is not approved; what a user created
// would be deleted with the composite (KR-05-69).
func refuseBelowDeleted(ev *evaluation) (*outcome.Verdict, error) {
	if !ev.parent().Deleting() || ev.Mode != v1alpha1.ModeEnforce || !beginsToCompose(ev) {
		return nil, nil
	}
	return ev.refuse(outcome.Refusal{Code: outcome.CodeComposed, Reason: outcome.ReasonStaleRead,
		Why: "its composite is being deleted, and it was composed before", Next: "There is nothing to do."}), nil
}

// allowBelowDeleted allows changes of children of a parent that is being deleted (KR-05-05).
func allowBelowDeleted(ev *evaluation) (*outcome.Verdict, error) {
	if !ev.parent().Deleting() || len(ev.narrowing().missing) > 0 {
		return nil, nil
	}
	return ev.allow(outcome.ReasonParentDeleted), nil
}

// allowInitializing allows changes of children of a parent that was never ready (KR-05-07).
func allowInitializing(ev *evaluation) (*outcome.Verdict, error) {
	passes := ev.class.initializing()
	if len(ev.class.binding) > 0 && ev.bound() && !ev.parent().Deleting() {
		passes = ev.narrowing().initializingAllows && !ev.overdue()
	}
	if !passes {
		return nil, nil
	}
	return ev.allow(outcome.ReasonInitializing), nil
}

// allowExpected allows what an intent explains, and new origins that need no approval, in the windows that bind them (KR-05-08,
// KR-14-21). No window binds a change that follows the state of the cluster, or one with an undetermined actor.
func allowExpected(ev *evaluation) (*outcome.Verdict, error) {
	switch class := ev.effectiveClass(); {
	case class == outcome.ClassExpected && ev.class.selfHealing:
		return ev.allow(outcome.ReasonSelfHealing), nil
	case class == outcome.ClassExpected:
		return inWindow(ev, v1alpha1.AppliesToExpected, ev.allow(outcome.ReasonExpected)), nil
	case class != outcome.ClassNewOrigin || ev.needsApproval():
	case ev.actor().Undetermined:
		return ev.allow(outcome.ReasonUndetermined), nil
	default:
		return inWindow(ev, v1alpha1.AppliesToNewOrigin, ev.allow(outcome.ReasonNewOrigin)), nil
	}
	return nil, nil
}

// needsApproval reports whether a change by another actor than the parent's
// controller is treated as drift (KR-04-11). An undetermined actor never is.
func (ev *evaluation) needsApproval() bool {
	return ev.Settings.RequireApproval && ev.effectiveClass() == outcome.ClassNewOrigin && !ev.actor().Undetermined
}
