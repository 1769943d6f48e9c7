package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// Explanation of an object: what would happen to a change of it now, and why.
type Explanation struct {
	Object v1alpha1.ObjectReference `json:"object"`
	// Role in Crossplane or kro: Composite, Managed, Claim, Instance or empty.
	Role parent.Role `json:"role,omitempty"`
	// Guarded: the webhook sees its changes; otherwise Unguarded is why not, as a
	// clause.
	Guarded   bool   `json:"guarded"`
	Unguarded string `json:"unguarded,omitempty"`
	Mode      Mode   `json:"mode"`
	// DuringOutage is what happens to its changes while the webhook does not answer: Refused or Allowed; empty where it does not see them
	// anyway.
	DuringOutage Outage `json:"duringOutage,omitempty"`
	// Unanswered is why no webhook answers now, as a clause; empty where one does, or that is unknown.
	Unanswered string `json:"unanswered,omitempty"`
	// Outcomes of the attempts on it.
	Outcomes []Outcome `json:"outcomes"`
	// Last change of it, where no intent of its parent explains it, or where it was not observed although
	// earlier ones were; nil for others.
	Last *v1alpha1.Hop `json:"last,omitempty"`
	// Parent as a cause of changes; nil where the object has none.
	Parent *Parent `json:"parent,omitempty"`
	// Own is the object as the cause of changes of its children; nil where it is
	// not known to be a parent.
	Own *Parent `json:"own,omitempty"`
	// Graph is what a graph of kro has caused; nil for other objects.
	Graph *Graph `json:"graph,omitempty"`
	// Gate of a managed resource; nil for other kinds.
	Gate *Gate `json:"gate,omitempty"`
	// Drifts about the object or its children, open ones first, newest first.
	Drifts []v1alpha1.Drift `json:"drifts,omitempty"`
	// Rulings of the open ones by id, where something was decided about them (KR-12-30).
	Rulings map[string]channel.Ruling `json:"rulings,omitempty"`
	// Behind a freeze or a rejection: what the composition function holds, and no approval lets pass meanwhile.
	Behind []Behind `json:"behind,omitempty"`
	// Absent is why the composition function does not run for the composite, as a sentence; empty where it does, or never did.
	Absent string `json:"absent,omitempty"`
	// Undecided is why nothing is decided: the user may not read what decisions depend on. Guarded, Mode, DuringOutage, Unanswered and
	// Outcomes are unknown then, and empty. Empty where all was read.
	Undecided string `json:"undecided,omitempty"`
	// Unread are sentences about what else could not be read.
	Unread []string `json:"unread,omitempty"`
}

// Graph is what a graph of kro has caused.
type Graph struct {
	// Drifts that are open, in all namespaces: they are about children of its instances.
	Drifts []v1alpha1.Drift `json:"drifts"`
}

// Outage is what happens to a change while the webhook does not answer.
type Outage string

// Outages.
const (
	OutageRefused Outage = "Refused"
	OutageAllowed Outage = "Allowed"
)

// outage sets what an outage of the webhook means to an object, and whether there is an outage now.
func (i *Inspector) outage(ctx context.Context, e *Explanation, s *parent.State) (err error) {
	if e.Unanswered, err = i.Direct.Unanswered(ctx); err != nil || !e.Guarded {
		return err
	}
	m, err := i.mapper.RESTMapping(s.GroupKind(), s.Version)
	if err != nil {
		return fmt.Errorf("cannot find the resource of kind %s: %w", s.GroupKind(), err)
	}
	open, err := i.failsOpen(ctx, m.Resource.GroupResource(), s)
	if e.DuringOutage = OutageRefused; open {
		e.DuringOutage = OutageAllowed
	}
	return err
}

// Explain explains an object as it was read. patched is the object as its controller
// would make it; nil explains an arbitrary change (KR-10-08).
func (i *Inspector) Explain(ctx context.Context, o, patched *unstructured.Unstructured) (*Explanation, error) {
	obj, err := i.look(ctx, o)
	if err != nil {
		return nil, err
	}
	e := &Explanation{Object: identity.ObjectReference(obj.State.Ref, obj.Generation, ""), Role: obj.Role, Last: lastUnrequested(obj.State)}
	why := i.undecidable(ctx)
	if err = i.waiting(ctx, e, o); why == nil {
		why = err
	}
	if e.unread(&err) != nil {
		return nil, err
	}
	if why == nil {
		why = i.decide(ctx, e, o, patched, obj)
	}
	if why != nil && !kerrors.IsForbidden(why) {
		return nil, why
	}
	if why != nil { // part of it may be known, and the rest would be an assumption
		e.Undecided, e.Guarded, e.Unguarded, e.Mode, e.DuringOutage, e.Unanswered, e.Outcomes = why.Error(), false, "", Mode{}, "", "", nil
		_ = i.Direct.Failed() // what failed for the same reason
	}
	if err := i.family(ctx, e, obj); err != nil {
		return nil, err
	}
	if e.Absent, err = i.absent(ctx, obj.State); e.unread(&err) != nil {
		return nil, err
	}
	if IsGraph(o) {
		drifts, err := ByGraph(ctx, i.Direct.Dynamic, o)
		if err == nil {
			e.Graph = &Graph{Drifts: drifts}
		}
		if e.unread(&err) != nil {
			return nil, err
		}
	}
	if why == nil {
		if e.Gate, err = i.gate(ctx, obj, e.Mode.Mode); e.unread(&err) != nil {
			return nil, err
		}
	}
	e.Unread = append(append(e.Unread, i.noted...), i.Direct.Unread()...)
	return e, i.Direct.Failed()
}

// waiting adds the changes that wait about the object, and what was decided about them.
func (i *Inspector) waiting(ctx context.Context, e *Explanation, o *unstructured.Unstructured) error {
	w, err := i.WaitingAbout(ctx, o)
	if err != nil {
		return err
	}
	e.Drifts, e.Behind = w.Drifts, w.Behind
	open := slices.DeleteFunc(slices.Clone(w.Drifts), func(d v1alpha1.Drift) bool { return !channel.Open(&d) })
	of, err := i.Rulings().Of(ctx, open)
	if err != nil {
		return err
	}
	for j := range open {
		if s := of(&open[j]); s != (channel.Ruling{}) {
			if e.Rulings == nil {
				e.Rulings = map[string]channel.Ruling{}
			}
			e.Rulings[open[j].Name] = s
		}
	}
	_, err = w.complete()
	return err
}

// decide decides what would happen to the object.
func (i *Inspector) decide(ctx context.Context, e *Explanation, o, patched *unstructured.Unstructured, obj *states.Object) (err error) {
	if e.Guarded, e.Unguarded, err = i.guarded(ctx, o); err != nil {
		return err
	}
	if e.Mode, err = i.ModeOf(ctx, obj.State); err != nil {
		return err
	}
	if err := i.outage(ctx, e, obj.State); err != nil {
		return err
	}
	e.Outcomes, err = i.outcomes(ctx, o, patched, e.Drifts)
	return err
}

// unread notes an error that the user may not read something, and clears it; it returns any
// other.
func (e *Explanation) unread(err *error) error {
	if kerrors.IsForbidden(*err) {
		e.Unread = append(e.Unread, (*err).Error())
		*err = nil
	}
	return *err
}

// absent returns a sentence where the composition function does not run for a composite any more, whose condition is of before (KR-12-32); empty where it
// does, or never did. Nothing of Kausality writes the condition then.
func (i *Inspector) absent(ctx context.Context, s *parent.State) (string, error) {
	c, ok := s.Condition(v1alpha1.ConditionKausality)
	if !ok || s.Role != parent.RoleComposite || s.CompositionRevision == "" {
		return "", nil
	}
	runs, err := i.builds.Runs(ctx, s.CompositionRevision)
	if err != nil || runs {
		return "", err
	}
	return fmt.Sprintf("Condition %s (%s, since %s) is out of date: the pipeline of composition revision %s has no step of Kausality's function. "+
		"The webhook alone decides; add the step, or ignore the condition", v1alpha1.ConditionKausality, c.Reason,
		c.LastTransitionTime.UTC().Format(time.RFC3339), s.CompositionRevision), nil
}

// lastUnrequested change of an object, which is its last one; nil where an intent explains that (KR-07-09).
func lastUnrequested(s *parent.State) *v1alpha1.Hop {
	last, recorded := lastTrace(s)
	hop := last.Own()
	unobserved := !recorded && trace.Of(s.Annotations).Own() != nil
	if hop.Passed == "" && len(hop.Causes) == 0 && !unobserved {
		return nil
	}
	return hop
}

// lastTrace returns the trace of the last change of an object, and whether it was observed.
func lastTrace(s *parent.State) (t trace.Trace, recorded bool) {
	gate := int64(0)
	if subject.IsComposedApply(s.IntentManager) {
		gate = mask.ParseGate(s.Annotations).Generation
	}
	return trace.Last(s, gate)
}

// family adds the family of an object: its parent, and itself as a parent.
func (i *Inspector) family(ctx context.Context, e *Explanation, obj *states.Object) error {
	if ref := obj.Parent; ref.Name != "" {
		p, err := i.world.Parent(ctx, ref, true)
		switch {
		case err == nil && !parent.Linked(p, obj.Ref, obj.Member), obj.Member && errors.Is(err, admission.ErrNotFound): // it has none by that
		case err == nil && obj.Member && !i.Direct.Reviews(ctx, p): // nor by the labels of kro (KR-18-01)
		case errors.Is(err, admission.ErrNotFound):
			e.Parent = &Parent{Object: identity.ObjectReference(ref, 0, ""), Missing: true}
		case err != nil:
			err = fmt.Errorf("cannot read the parent %s: %w", identity.Describe(ref), err)
			return e.unread(&err)
		default:
			if e.Parent, err = i.parent(ctx, p); err != nil {
				return err
			}
		}
	}
	if !isParent(obj.State) {
		return nil
	}
	i.world.firstSeen(obj.State)
	var err error
	e.Own, err = i.parent(ctx, obj.State)
	return err
}

// isParent reports whether an object is a parent by its role, or by annotations
// that only parents have.
func isParent(s *parent.State) bool {
	for _, k := range []string{v1alpha1.AnnotationKeyControllers, v1alpha1.AnnotationKeyControllerIDs,
		v1alpha1.AnnotationKeySettledGeneration, v1alpha1.AnnotationKeyFreeze} {
		if s.Annotations[k] != "" && s.Role != parent.RoleManaged {
			return true
		}
	}
	return s.Role == parent.RoleComposite || s.Role == parent.RoleClaim || s.Role == parent.RoleInstance
}
