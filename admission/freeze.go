package admission

import (
	"github.com/kausality-io/function-kausality/admission/identity"
)

// parentFrozen refuses changes of children that are frozen, by any user: by the freeze of their parent, of its Namespace or
// a policy that covers it, or because they are in such a Namespace or covered by such a policy themselves
// (KR-05-06, KR-14-33, KR-14-34).
func (ev *evaluation) parentFrozen() (verdict, error) {
	if ev.parent().Deleting() {
		return verdict{}, nil
	}
	freeze := ev.view().freeze
	if freeze == nil {
		by, err := ev.Covering(ev.ctx, ev.Req.Ref(), ev.Settings.Freezes, ev.live)
		if err != nil {
			return verdict{}, err
		}
		freeze = by.Freeze(ev.Req.Ref(), ev.Kind, ev.Req.Time)
	}
	if freeze == nil {
		return verdict{}, nil
	}
	return refuseAs(ev.Facts, ev.class.class, frozen(freeze)), nil
}

// frozen is the refusal by a freeze, which holds in both modes (KR-05-22).
func frozen(f *identity.Freeze) refusal {
	return refusal{code: 403, reason: ReasonFrozen, why: f.Why(), next: "To unfreeze: " + f.End()}
}
