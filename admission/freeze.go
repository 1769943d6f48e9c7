package admission

import (
	"fmt"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
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
		by, err := ev.covering(ev.req.Ref(), ev.settings.Freezes)
		if err != nil {
			return verdict{}, err
		}
		freeze = by.Freeze(ev.req.Ref(), ev.kind, ev.req.Time)
	}
	if freeze == nil {
		return verdict{}, nil
	}
	return ev.refuseAs(ev.class.class, frozen(freeze)), nil
}

// freezeOf an object that is in force; nil for none.
func (ev *evaluation) freezeOf(s *parent.State) (*identity.Freeze, error) {
	by, err := ev.covering(s.Ref, ev.World.Settings(s.Ref, s.Labels).Freezes)
	if err != nil {
		return nil, err
	}
	return identity.FreezeOf(s, ev.kindOf(s), by, ev.req.Time), nil
}

// covering of an object, given the freezes of the policies that cover it. A Namespace is read live only where the watch has
// a freeze, so that no cache alone refuses (KR-05-20): each read counts where the API server is slow.
func (ev *evaluation) covering(ref parent.Ref, policies []settings.PolicyFreeze) (identity.Covering, error) {
	out := identity.Covering{Policies: policies}
	if ref.Namespace == "" {
		return out, nil
	}
	var err error
	out.Namespace, err = ev.World.Namespace(ev.ctx, ref.Namespace, false)
	if err == nil && ev.live && out.Namespace.Freeze != "" {
		out.Namespace, err = ev.World.Namespace(ev.ctx, ref.Namespace, true)
	}
	if err != nil {
		return out, fmt.Errorf("cannot read whether namespace %s is frozen: %w", ref.Namespace, err)
	}
	return out, nil
}

// frozen is the refusal by a freeze, which holds in both modes (KR-05-22).
func frozen(f *identity.Freeze) refusal {
	return refusal{code: 403, reason: ReasonFrozen, why: f.Why(), next: "To unfreeze: " + f.End()}
}
