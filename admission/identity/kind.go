package identity

import (
	"cmp"
	"time"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Kind is what decisions need to know of a kind. The zero Kind is an ordinary
// kind, one that is no part of Crossplane.
type Kind struct {
	// Role in Crossplane, according to the CRD.
	Role parent.Role
	// ManagementPolicies: the schema has spec.managementPolicies.
	ManagementPolicies bool
	// Runtime is the set of managementPolicies that the provider accepts.
	Runtime mask.Runtime
	// ReconcileRequests: the provider echoes
	// v1alpha1.AnnotationKeyReconcileRequestedAt in its status.
	ReconcileRequests bool
	// SecretFields that its schema declares as passwords (KR-13-26).
	SecretFields change.SecretFields
	// Resource is the plural with group, as kubectl takes it:
	// xdatabases.example.org. Empty where it is unknown.
	Resource string
	// Graph of kro that made the CRD, by its name; empty for none.
	Graph string
}

// Holder of approvals for an object: the object itself, or one of its ancestors.
type Holder struct {
	State *parent.State
	Kind  Kind
	// Unguarded: requests about it are not reviewed. Who wrote its annotations had no
	// need of the right to approve, and may be the user whose change is decided about.
	Unguarded bool
	// Covering is what may freeze it from outside.
	Covering Covering
	// Whole is what the deletion of a composite or Claim deletes, false where that is not known; nil for another object. It is
	// called where an approval may be one of that deletion.
	Whole func() (Whole, bool)
}

// Freeze returns the freeze in force on the holder at a time; nil where there is no freeze.
func (h Holder) Freeze(now time.Time) *Freeze { return FreezeOf(h.State, h.Kind, h.Covering, now) }

// Decisions returns the decisions of users on the holder that are in force at a time. On a holder that
// is not guarded, approvals do not count (KR-13-15); a freeze and rejections do, since they only forbid.
func (h Holder) Decisions(now time.Time) approval.Set {
	set := approval.ParseAt(h.State.Annotations, now)
	if h.Unguarded {
		return set.WithoutApprovals()
	}
	return set
}

// ApproveCommand returns the command that approves a difference on this holder; "" where
// no approval on it counts.
func (h Holder) ApproveCommand(id string) string {
	if h.Unguarded {
		return ""
	}
	return ApproveCommand(h.State, h.Kind, id)
}

// ClaimEffect is a claim to write on the object that holds an approval.
type ClaimEffect struct {
	Holder parent.Ref
	Entry  approval.Entry
	Use    approval.Use
	// Stored is the value of the holder's claims annotation that the decision
	// is based on; the write must fail where it is another one.
	Stored string
	// HasStored: the annotation exists.
	HasStored bool
	// Value to store.
	Value string
	// ID of the claim.
	ID string
}

// Claim returns the effect that claims an approval on its holder: it stores the claim. An approval that
// was never admitted has no generation; it takes the holder's, or a retry would find it outdated.
func Claim(holder *parent.State, claims approval.Claims, m approval.Match, u approval.Use, now time.Time) *ClaimEffect {
	stored, has := holder.Annotations[v1alpha1.AnnotationKeyClaims]
	taken := m
	taken.Entry.Generation = cmp.Or(taken.Entry.Generation, holder.Generation)
	after, claim := claims.Take(taken, u, now)
	return &ClaimEffect{Holder: holder.Ref, Entry: m.Entry, Use: u, Stored: stored, HasStored: has, Value: after.String(), ID: claim.ID}
}
