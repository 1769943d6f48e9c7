package admission

import (
	"cmp"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
)

// build returns the build of the controller that makes the request; the empty Build where it is unknown.
func (ev *evaluation) build() allowance.Build {
	return *ev.calling.Get(func() allowance.Build {
		b, err := ev.World.Build(ev.ctx, ev.Req, ev.parent())
		graph := ev.parent() != nil && ev.KindOf(ev.parent()).Graph != ""
		if err != nil && (graph || len(ev.upgrades()) > 0) { // else it is recorded alone, and nothing depends on it yet
			ev.warnings.Add("cannot determine the build of the controller: " + err.Error())
		}
		return b
	})
}

// upgrades returns the UpgradeAllowances for the controller that makes the request.
func (ev *evaluation) upgrades() []*allowance.Upgrade {
	return ev.PolicySet().Upgrading(cmp.Or(ev.Req.User.Name, ev.Req.Controller))
}

// allowUpgrade allows drift that an UpgradeAllowance permits to a new build of the
// controller (KR-05-10).
func allowUpgrade(ev *evaluation) (*outcome.Verdict, error) {
	candidates := ev.upgrades()
	if len(candidates) == 0 || !ev.actor().Controller {
		return nil, nil
	}
	return approve.Upgrade(ev.Facts, ev.effectiveClass(), candidates, ev.build(), ev.class.digest.ID()), nil
}

// allowByPolicy allows drift that a rule of an ApprovalPolicy matches (KR-05-12), also a change by another
// actor that is treated as drift (KR-05-67).
func allowByPolicy(ev *evaluation) (*outcome.Verdict, error) {
	set, other := ev.PolicySet(), !ev.actor().Controller
	if set.Empty() || other && !ev.needsApproval() {
		return nil, nil
	}
	v, warnings := approve.Policy(ev.ctx, ev.Facts, ev.effectiveClass(), allowance.ExceptionQuery{
		OtherActor: other, Input: ev.input(), Parent: identity.ObjectReference(ev.parent().Ref, 0, ""),
		Intent: ev.view().intent.Generation, Digest: ev.class.digest.ID(), Ruled: ev.poll() != nil,
	})
	ev.warnings.Add(warnings...)
	if v == nil {
		ev.unevaluated = warnings
	}
	return v, nil
}
