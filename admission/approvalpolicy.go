package admission

import (
	"cmp"

	"github.com/kausality-io/function-kausality/admission/approve"

	"github.com/kausality-io/function-kausality/admission/outcome"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// build of the controller that makes the request; empty where it is unknown.
func (ev *evaluation) build() allowance.Build {
	return *ev.calling.Get(func() allowance.Build {
		b, err := ev.World.Build(ev.ctx, ev.Req, ev.parent())
		if err != nil && len(ev.upgrades()) > 0 { // else it is recorded alone, and nothing depends on it yet
			ev.warnings.Add("cannot determine the build of the controller: " + err.Error())
		}
		return b
	})
}

// upgrades for the controller that makes the request.
func (ev *evaluation) upgrades() []*allowance.Upgrade {
	return ev.PolicySet().Upgrading(cmp.Or(ev.Req.User.Name, ev.Req.Controller))
}

// upgraded allows drift that an UpgradeAllowance permits to a new build of the
// controller (KR-05-10).
func (ev *evaluation) upgraded() (outcome.Verdict, error) {
	candidates := ev.upgrades()
	if len(candidates) == 0 || !ev.actor().Controller {
		return outcome.Verdict{}, nil
	}
	q := allowance.UpgradeQuery{
		Child: ev.Req.Kind.GroupKind(), Inside: ev.Inside(), Verb: ev.Verb(), Details: ev.Fields(), Labels: ev.Req.Stored().GetLabels(),
		Build: ev.build(), Stored: ev.Req.Fingerprint(), Last: ev.Req.LastUpgrade(), Now: ev.Req.Time,
	}
	for _, u := range candidates {
		if !u.Allows(q) {
			continue
		}
		v := ev.allow(outcome.ReasonUpgraded)
		v.Upgrade, v.Resolution = u, outcome.ResolutionUpgraded
		v.Exception = &outcome.ExceptionUse{Policy: u.Key(), Rule: allowance.UpgradeRule}
		v.Approval = &v1alpha1.HopApproval{Policy: u.Key(), Digest: ev.class.id}
		return v, nil
	}
	return outcome.Verdict{}, nil
}

// excepted allows drift that a rule of an ApprovalPolicy matches (KR-05-12), also a change by another
// actor that is treated as drift (KR-05-67).
func (ev *evaluation) excepted() (outcome.Verdict, error) {
	set, other := ev.PolicySet(), !ev.actor().Controller
	if set.Empty() || other && !ev.needsApproval() {
		return outcome.Verdict{}, nil
	}
	object := ev.Desired.New
	if ev.Req.Operation == Delete {
		object = ev.Desired.Old
	}
	if ev.Kind.ManagementPolicies {
		object = mask.WithPolicies(object, ev.Desired.Author) // the mask is no part of the desired state
	}
	use, stale := approve.Use(ev.Facts, ev.class.id), settling.StaleClaims(ev.Req.Time)
	user, groups := ev.Writer()
	x, warnings := set.Excepted(ev.ctx, allowance.ExceptionQuery{
		User: user, Groups: groups, OtherActor: other, Child: use.Child, Input: ev.input(), Desired: change.Desired(object),
		Parent: identity.ObjectReference(ev.parent().Ref, 0, ""), Intent: ev.view().intent.Generation, Digest: ev.class.id, UserID: use.User,
		Claim: use.Claim, Now: ev.Req.Time, Stale: stale,
	})
	ev.warnings.Add(warnings...)
	if x == nil {
		ev.unevaluated = warnings
		return outcome.Verdict{}, nil
	}
	v := ev.allow(outcome.ReasonExcepted)
	v.Resolution = outcome.ResolutionApproved
	v.Approval = &v1alpha1.HopApproval{Policy: x.Exception.Key(), Content: x.Content, Mode: x.Mode, Digest: ev.class.id}
	v.Exception = &outcome.ExceptionUse{Policy: x.Exception.Key(), Rule: x.Rule}
	if x.Claim != nil && x.Mode == v1alpha1.ApprovalOnce {
		v.Approval.Claim = x.Claim.ID
	}
	if x.NeedsClaim {
		v.PolicyClaim = &outcome.PolicyClaimEffect{Namespace: x.Exception.Namespace, Name: x.Exception.Name, Claim: *x.Claim, Stale: stale}
	}
	return v, nil
}
