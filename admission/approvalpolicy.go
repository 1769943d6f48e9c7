package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Builds is implemented by a World that knows the builds of controllers. It is
// asked only while there is an UpgradeAllowance.
type Builds interface {
	// Build of the controller that makes a request about a child of a parent. What
	// is not known is empty; an error says that it could not be asked.
	Build(ctx context.Context, req *Request, p *parent.State) (allowance.Build, error)
}

// PolicyClaimEffect claims a rule of an ApprovalPolicy in its status.
type PolicyClaimEffect struct {
	// Namespace and Name of the policy; a ClusterApprovalPolicy where Namespace is
	// empty.
	Namespace, Name string
	Claim           v1alpha1.PolicyClaim
	// Stale: a pending claim of the same use from before is claimed anew.
	Stale time.Time
}

// buildOf the controller that asks; empty where nobody knows.
func (ev *evaluation) buildOf() allowance.Build {
	if ev.gov.build != nil {
		return *ev.gov.build
	}
	ev.gov.build = &allowance.Build{}
	if w, ok := ev.World.(Builds); ok {
		b, err := w.Build(ev.ctx, ev.req, ev.parent)
		if err != nil {
			ev.warn("cannot tell the build of the controller: " + err.Error())
		}
		ev.gov.build = &b
	}
	return *ev.gov.build
}

// storedFingerprint of the object, under its older name as well.
func (ev *evaluation) storedFingerprint() string {
	if f := annotation(ev.req.stored(), v1alpha1.AnnotationKeyFingerprint); f != "" {
		return f
	}
	return annotation(ev.req.stored(), v1alpha1.AnnotationKeyLegacyFingerprint)
}

// lastUpgrade of the object; a value that does not parse is an older version's
// name alone.
func (ev *evaluation) lastUpgrade() v1alpha1.LastUpgrade {
	var last v1alpha1.LastUpgrade
	value := annotation(ev.req.stored(), v1alpha1.AnnotationKeyLastUpgrade)
	if json.Unmarshal([]byte(value), &last) != nil {
		return v1alpha1.LastUpgrade{Name: value}
	}
	return last
}

// upgraded is row 10: the controller, or what it works by, is a new one.
func (ev *evaluation) upgraded() (bool, error) {
	set := ev.policySet()
	candidates := set.Upgrading(cmp.Or(ev.req.User.Name, ev.req.Controller))
	if len(candidates) == 0 || !ev.actor.controller {
		return false, nil
	}
	q := allowance.UpgradeQuery{
		Child: ev.req.Kind.GroupKind(), Inside: ev.inside(), Verb: ev.verb(), Details: ev.fields(), Labels: ev.req.stored().GetLabels(),
		Build: ev.buildOf(), Stored: ev.storedFingerprint(), Last: ev.lastUpgrade(), Now: ev.req.Time,
	}
	for _, u := range candidates {
		if !u.Allows(q) {
			continue
		}
		ev.gov.upgrade = u
		ev.d.Resolution = ResolutionUpgraded
		ev.d.Exception = &ExceptionUse{Policy: u.Key(), Rule: allowance.UpgradeRule}
		ev.actor.approval = &v1alpha1.HopApproval{Policy: u.Key(), Digest: ev.id}
		return ev.allow(ReasonUpgraded)
	}
	return false, nil
}

// writeFingerprint of the build that changed the object, and the upgrade that let
// it.
func (ev *evaluation) writeFingerprint() {
	if !ev.policySet().HasUpgrades() || !ev.actor.controller || ev.d.Class == ClassNone || ev.d.Class == ClassSelf {
		return
	}
	b := ev.buildOf()
	if b.Fingerprint != "" {
		ev.put(v1alpha1.AnnotationKeyFingerprint, b.Fingerprint)
	}
	if ev.gov.upgrade == nil {
		return
	}
	last := ev.lastUpgrade()
	last.Name = ev.gov.upgrade.Name
	for _, f := range []string{ev.storedFingerprint(), b.Fingerprint} {
		if f != "" && !slices.Contains(last.Fingerprints, f) {
			last.Fingerprints = append(slices.Clone(last.Fingerprints), f)
		}
	}
	if n := len(last.Fingerprints) - v1alpha1.MaxHashes; n > 0 {
		last.Fingerprints = last.Fingerprints[n:]
	}
	raw, err := json.Marshal(last)
	if err != nil {
		return // strings always marshal
	}
	ev.put(v1alpha1.AnnotationKeyLastUpgrade, string(raw))
}

// excepted is row 12: a pattern approves it.
func (ev *evaluation) excepted() (bool, error) {
	set := ev.policySet()
	if set.Empty() || !ev.actor.controller {
		return false, nil
	}
	object := ev.policies.new
	if ev.req.Operation == Delete {
		object = ev.policies.old
	}
	if ev.kind.ManagementPolicies {
		object = withPolicies(object, ev.policies.author) // the mask is nobody's desire
	}
	use := ev.use(ev.id)
	x, warnings := set.Excepted(ev.ctx, allowance.ExceptionQuery{
		User: ev.req.User.Name, Groups: ev.req.User.Groups, Child: use.Child, Input: ev.variables(), Desired: change.Desired(object),
		Parent: identity.ObjectReference(ev.parent.Ref, 0, ""), Intent: ev.intent.Generation, Digest: ev.id, UserHash: use.User,
		Claim: use.Claim, Now: ev.req.Time, Stale: settling.StaleClaims(ev.req.Time),
	})
	ev.d.Warnings = append(ev.d.Warnings, warnings...)
	if x == nil {
		ev.gov.unexcepted = warnings
		return false, nil
	}
	ev.d.Resolution = ResolutionApproved
	hop := &v1alpha1.HopApproval{Policy: x.Exception.Key(), Content: x.Content, Mode: x.Mode, Digest: ev.id}
	ev.d.Exception = &ExceptionUse{Policy: x.Exception.Key(), Rule: x.Rule}
	if x.Claim != nil && x.Mode == v1alpha1.ApprovalOnce {
		hop.Claim = x.Claim.ID
	}
	if x.NeedsClaim {
		ev.d.PolicyClaim = &PolicyClaimEffect{Namespace: x.Exception.Namespace, Name: x.Exception.Name, Claim: *x.Claim, Stale: settling.StaleClaims(ev.req.Time)}
	}
	ev.actor.approval = hop
	return ev.allow(ReasonExcepted)
}
