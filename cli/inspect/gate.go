package inspect

import (
	"context"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// Gate of a managed resource.
type Gate struct {
	// State is open or closed; empty where it is not masked.
	State v1alpha1.GateState `json:"state,omitempty"`
	// Transition is the last one, as the annotation records it.
	Transition v1alpha1.Gate `json:"transition,omitzero"`
	// Policies as stored, and those of their author.
	Policies []string `json:"policies,omitempty"`
	Author   []string `json:"author,omitempty"`
	// Next is what the gate controller will do; empty for nothing.
	Next gating.Action `json:"next,omitempty"`
	// Why nothing is done, or what the gate waits for, as a clause.
	Why string `json:"why,omitempty"`
	// Difference between the external resource and the desired state.
	Difference []v1alpha1.FieldDifference `json:"difference,omitempty"`
	// Gone: the provider reports that it does not exist.
	Gone bool `json:"gone,omitempty"`
	// Withheld: the mode is log, and in mode enforce the gate would hold the Difference until
	// it is approved (KR-08-55).
	Withheld bool `json:"withheld,omitempty"`
	// Unsupported: the kind is a managed resource's without spec.managementPolicies, so that nothing
	// can be masked. Why is then the only other field.
	Unsupported bool `json:"unsupported,omitempty"`
	// Blind is why external drift is unknown; empty where it is known (KR-08-22).
	Blind gating.UnknownDrift `json:"blind,omitempty"`
}

// whyUnsupported is why a managed resource cannot have a gate (KR-07-12).
const whyUnsupported = "its kind has no spec.managementPolicies"

// gate returns the gate of an object, and what the gate controller would do next by the same decision
// (admission/gating); nil for kinds that are no managed resources.
func (i *Inspector) gate(ctx context.Context, obj *states.Object, mode v1alpha1.Mode) (*Gate, error) {
	kind := i.Direct.Kinds.Kind(obj.GroupVersionKind)
	if !kind.ManagementPolicies {
		if kind.Role == parent.RoleManaged {
			return &Gate{Unsupported: true, Why: whyUnsupported + ": its provider may change the external resource at any time"}, nil
		}
		return nil, nil // nil is a kind that has no gate.
	}
	holders, err := i.Direct.Holders(ctx, obj, true)
	if err != nil {
		return nil, err
	}
	own, err := i.Direct.Settings(ctx, obj.State.Ref, obj.State.Labels)
	if err != nil {
		return nil, err
	}
	set, err := i.policies(ctx)
	if err != nil {
		return nil, err
	}
	g := gating.Of(obj.State, kind, obj.External, own, gating.Defaults{Deadline: gating.DefaultDeadline})
	g.Policies = set
	g.Mode, g.Holders, g.Live, g.User, g.Now = mode, holders, true, i.User.ID(), i.options.Now()
	d := g.Decide()
	stored := mask.ParseGate(obj.Annotations)
	var equalAt int64
	if synced, _ := obj.State.Condition("Synced"); synced.ObservedGeneration >= obj.Generation { // its provider has carried out its last change
		equalAt = obj.Generation
	}
	withheld, _ := g.Shadow(equalAt)
	return &Gate{
		State: stored.State, Transition: stored, Policies: obj.ManagementPolicies,
		Author: mask.AuthorOf(obj.Annotations, obj.ManagementPolicies), Next: d.Action, Why: d.Why,
		Difference: change.Fields(own.Relevant(obj.External.Difference), maxFields), Gone: obj.External.Gone, Blind: obj.Blind(),
		Withheld: withheld != nil,
	}, nil
}
