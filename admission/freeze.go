package admission

import (
	"github.com/kausality-io/function-kausality/admission/outcome"
)

// refuseFrozen refuses changes of children that are frozen, by any user: by the freeze of their parent, of its Namespace or
// a policy that covers it, or because they are in such a Namespace or covered by such a policy themselves
// (KR-05-06, KR-14-33, KR-14-34).
func refuseFrozen(ev *evaluation) (*outcome.Verdict, error) {
	if ev.parent().Deleting() {
		return nil, nil
	}
	freeze := ev.view().freeze
	if freeze == nil {
		by, err := ev.Covering(ev.ctx, ev.Req.Ref(), ev.Settings.Freezes, ev.live)
		if err != nil {
			return nil, err
		}
		freeze = by.Freeze(ev.Req.Ref(), ev.Kind, ev.Req.Time)
	}
	if freeze == nil {
		return nil, nil
	}
	return outcome.Refuse(ev.Facts, ev.class.class, outcome.Frozen(freeze)), nil
}
