package deletion

import (
	"slices"

	"github.com/kausality-io/function-kausality/admission/actor"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
)

// terminatingDeletion decides about a change of a managed resource that is being deleted, after which its provider
// deletes an external resource that it would not have deleted before. If anything was approved, it is not that
// deletion. The approval is used by the change itself, and no gate opens before.
func (ev *decider) terminatingDeletion() (*outcome.Verdict, Finding, error) {
	was, mr := parent.Sum(ev.Req.OldObject, ev.Kind.Role), parent.Sum(ev.Req.Object, ev.Kind.Role)
	var why string
	switch {
	case !gating.Destroys(mr):
		return nil, Finding{}, nil
	case ev.Retarget: // (KR-13-18)
		why = "it is being deleted, and its provider would delete that external resource instead"
		if own, err := actor.IsController(ev.ctx, ev.Facts); own || err != nil {
			return nil, Finding{}, err
		}
	case !gating.Destroys(was) && !ev.keepsPolicies(): // (KR-13-60)
		why = "it is being deleted, and its provider would delete its external resource, which it would not with the stored policies"
	default:
		return nil, Finding{}, nil
	}
	holder, cached := ev.holderFor(mr)
	j := judge(ev.Facts, holder, mr, why)
	j.blocked, j.mode, j.cached, j.terminating = []*parent.State{mr}, ev.Mode, cached, true
	if err := withWhole(ev, &j); err != nil {
		return nil, Finding{}, err
	}
	v, d := ev.blockedDeletion(j)
	return v, d, nil
}

// keepsPolicies reports whether the stored managementPolicies of a managed resource that
// is being deleted are kept (KR-08-14): a re-apply of its author's value, or a write by a
// controller.
func (ev *decider) keepsPolicies() bool {
	p := ev.Desired
	if p.Remembered && mask.ReApplied(p.Before, p.Stored, p.Incoming) {
		return true
	}
	return !slices.Equal(p.Incoming, p.Stored) &&
		(subject.IsComposedApply(ev.Manager) || ev.World.Component(ev.Req.User, ev.Req.FieldManager) || actor.IsAnyController(ev.ctx, ev.Facts))
}
