package inspect

import (
	"cmp"
	"context"
	"errors"

	"github.com/kausality-io/function-kausality/admission/settling"

	kerrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Parent as the cause of changes of its children.
type Parent struct {
	Object v1alpha1.ObjectReference `json:"object"`
	// Missing: it does not exist; the other fields are empty.
	Missing bool           `json:"missing,omitempty"`
	Phase   v1alpha1.Phase `json:"phase,omitempty"`
	// Intent is the hop of its last intent.
	Intent v1alpha1.Hop `json:"intent,omitzero"`
	// SettledGeneration as stored or found; -1 where it never settled.
	SettledGeneration int64 `json:"settledGeneration"`
	// Settled since the last intent: further changes by its controller are drift.
	Settled bool `json:"settled"`
	// Unsettled is why it has not settled, as a clause.
	Unsettled string `json:"unsettled,omitempty"`
	// Revision of the Composition in use.
	Revision string `json:"compositionRevision,omitempty"`
	// GraphRevision that kro carries out for an instance of a graph, with its author; nil for other parents, and where it is unknown.
	GraphRevision *v1alpha1.HopCause `json:"graphRevision,omitempty"`
	Frozen        *v1alpha1.Freeze   `json:"frozen,omitempty"`
	// FrozenWith is what has the freeze, as "Namespace NAME" or "Kausality policy NAME"; empty for the parent itself.
	FrozenWith string               `json:"frozenWith,omitempty"`
	Snoozed    *v1alpha1.Snooze     `json:"snoozed,omitempty"`
	Approvals  []Approval           `json:"approvals,omitempty"`
	Rejections []v1alpha1.Rejection `json:"rejections,omitempty"`
	// Warnings name annotations that do not parse.
	Warnings []string `json:"warnings,omitempty"`
}

// Approval with the state of its claim.
type Approval struct {
	v1alpha1.Approval
	// Key of the annotation that holds it.
	Key string `json:"key"`
	// State of its claim: open, pending, used or pruned; empty where it was not
	// admitted yet, and for mode always (KR-05-33).
	State v1alpha1.ClaimState `json:"state,omitempty"`
	// By are the users who approved; nil where that is unknown (KR-14-10).
	By []v1alpha1.Vote `json:"by,omitempty"`
}

// maxChildren of one XR that are read to find out why it has not settled.
const maxChildren = 200

// parent returns the parent as a cause of changes. Only where it has not settled are its children read, to
// find out why.
func (i *Inspector) parent(ctx context.Context, s *parent.State) (*Parent, error) {
	set := approval.ParseAt(s.Annotations, i.options.Now())
	intent, _ := trace.Intent(s)
	known := i.world.Settled(s.Ref)
	p := &Parent{
		Object: identity.ObjectReference(s.Ref, s.Generation, ""), Intent: intent, SettledGeneration: max(s.SettledGeneration(), known),
		Settled: settling.Settled(s, known), Revision: s.CompositionRevision, Rejections: set.Rejections, Warnings: set.Warnings,
	}
	if err := i.freeze(ctx, s, p); err != nil {
		return nil, err
	}
	graph, err := question{world: i.world, inspector: i, ctx: ctx}.revision(ctx, s)
	if err != nil {
		return nil, err
	}
	p.GraphRevision = graph
	initialized, err := i.Direct.Initialized(ctx, s.GroupKind())
	if err != nil && !kerrors.IsForbidden(err) { // then the policies are named as unread
		return nil, err
	}
	p.Phase = settling.Phase(s, known, initialized...)
	if set.Snoozed(i.options.Now()) {
		p.Snoozed = set.Snooze
	}
	for _, e := range set.Approvals {
		a := Approval{Approval: e.Approval, Key: e.Key, By: set.By(e)}
		if c := set.Claims.Of(e.Content); c != nil {
			a.State = c.State
		}
		p.Approvals = append(p.Approvals, a)
	}
	if p.Settled {
		return p, nil
	}
	why, err := i.unsettled(ctx, s)
	p.Unsettled = why
	return p, err
}

// freeze adds the freeze of a parent: its own, else that of its Namespace or of a policy (KR-14-35). What the user may not read is left out.
func (i *Inspector) freeze(ctx context.Context, s *parent.State, p *Parent) error {
	f, err := i.FreezeOf(ctx, s)
	switch {
	case err != nil || f == nil:
		return err
	case f.Namespace != "":
		p.FrozenWith = "Namespace " + f.Namespace
	case f.Policy != "":
		p.FrozenWith = "Kausality policy " + f.Policy
	}
	p.Frozen = &f.Freeze
	return nil
}

// unsettled returns why a parent has not settled, as a clause; never empty.
func (i *Inspector) unsettled(ctx context.Context, s *parent.State) (string, error) {
	in := settling.Observation{Parent: s, Observed: s.ObservedGeneration, Known: s.HasObserved, Now: i.options.Now()}
	for n, ref := range s.Children {
		if n == maxChildren {
			in.Missing = true
			break
		}
		c, err := i.Direct.States.Get(ctx, ref, true)
		switch {
		case errors.Is(err, admission.ErrNotFound):
		case err != nil:
			return "", err
		default:
			in.Children = append(in.Children, c.State)
		}
	}
	why, _ := in.Unsettled()
	return cmp.Or(why, "it is about to settle"), nil
}
