package approve

import (
	"context"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Query returns the query of the approvals on a parent about the change of a child with the given digest. since is the intent
// generation of the parent that an approval must have, lacks and counted as in approval.Query.
func Query(f *facts.Facts, digest change.Digest, since int64, lacks func([]v1alpha1.Vote) (string, bool),
	counted func([]v1alpha1.Vote) []v1alpha1.Vote,
) *approval.Query {
	use := Use(f, digest.ID())
	return &approval.Query{
		APIVersion: use.Child.APIVersion, Kind: use.Child.Kind, Name: use.Child.Name, Resource: f.Resource(),
		Relation: v1alpha1.RelationControllerChild, Digests: []change.Digest{digest}, Intent: since, Use: use,
		Lacks: lacks, Counted: counted,
	}
}

// By returns the verdict on a change that an approval on a holder lets pass, with the claim that it needs.
func By(f *facts.Facts, class outcome.Class, holder *parent.State, set approval.Set, m approval.Match, use approval.Use) *outcome.Verdict {
	v := outcome.Allow(class, outcome.ReasonApproved)
	v.Resolution = outcome.ResolutionApproved
	v.Approval = m.Approval(use.Digest)
	switch {
	case m.NeedsClaim():
		v.Claim = identity.Claim(holder, set.Claims, m, use, f.Req.Time)
		v.Approval.Claim = v.Claim.ID
	case m.Claimed != nil:
		v.Approval.Claim = m.Claimed.ID
	}
	return v
}

// ByOwn returns the verdict on a change that an approval on the object itself lets pass. Nothing is claimed: the change is an
// intent, which ends the approvals from before.
func ByOwn(class outcome.Class, m approval.Match, id string) *outcome.Verdict {
	v := outcome.Allow(class, outcome.ReasonApproved)
	v.Approval = m.Approval(id)
	return v
}

// Upgrade returns the verdict on a change that one of the UpgradeAllowances permits to a new build of the controller
// (KR-05-10); nil where none does.
func Upgrade(f *facts.Facts, class outcome.Class, candidates []*allowance.Upgrade, build allowance.Build, id string) *outcome.Verdict {
	var stored string
	build.Fingerprint, stored = build.Upgrade(f.Req.Fingerprint())
	q := allowance.UpgradeQuery{
		Child: f.Req.Kind.GroupKind(), Inside: f.Inside(), Verb: f.Verb(), Details: f.Fields(), Labels: f.Req.Stored().GetLabels(),
		Build: build, Stored: stored, Last: f.Req.LastUpgrade(), Now: f.Req.Time,
	}
	for _, u := range candidates {
		if !u.Allows(q) {
			continue
		}
		v := outcome.Allow(class, outcome.ReasonUpgraded)
		v.Upgrade, v.Resolution = u, outcome.ResolutionUpgraded
		v.Exception = &outcome.ExceptionUse{Policy: u.Key(), Rule: allowance.UpgradeRule}
		v.Approval = &v1alpha1.HopApproval{Policy: u.Key(), Digest: id}
		return v
	}
	return nil
}

// Policy returns the verdict on a change that a rule of an ApprovalPolicy lets pass (KR-05-12); nil
// where no rule does. The warnings name rules that could not be evaluated. The caller sets the fields of the query
// that depend on the parent: OtherActor, Input, Parent, Intent and Digest; Policy sets the rest.
func Policy(ctx context.Context, f *facts.Facts, class outcome.Class, q allowance.ExceptionQuery) (*outcome.Verdict, []string) {
	object := f.Desired.New
	if f.Req.Operation == request.Delete {
		object = f.Desired.Old
	}
	if f.Kind.ManagementPolicies {
		object = mask.WithPolicies(object, f.Desired.Author) // the mask is no part of the desired state
	}
	use, stale := Use(f, q.Digest), settling.StaleClaims(f.Req.Time)
	q.User, q.Groups = f.Writer()
	q.Child, q.Desired, q.UserID, q.Claim, q.Now, q.Stale = use.Child, change.Desired(object), use.User, use.Claim, f.Req.Time, stale
	x, warnings := f.PolicySet().Excepted(ctx, q)
	if x == nil {
		return nil, warnings
	}
	v := outcome.Allow(class, outcome.ReasonExcepted)
	v.Resolution = outcome.ResolutionApproved
	v.Approval = &v1alpha1.HopApproval{Policy: x.Exception.Key(), Content: x.Content, Mode: x.Mode, Digest: q.Digest}
	v.Exception = &outcome.ExceptionUse{Policy: x.Exception.Key(), Rule: x.Rule}
	if x.Claim != nil && x.Mode == v1alpha1.ApprovalOnce {
		v.Approval.Claim = x.Claim.ID
	}
	if x.NeedsClaim {
		v.PolicyClaim = &outcome.PolicyClaimEffect{Namespace: x.Exception.Namespace, Name: x.Exception.Name, Claim: *x.Claim, Stale: stale}
	}
	return v, warnings
}
