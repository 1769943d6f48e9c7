package allowance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ExceptionQuery is a drift of a child that ApprovalPolicies may approve.
type ExceptionQuery struct {
	User   string
	Groups []string
	// OtherActor: the user is not the parent's controller.
	OtherActor bool
	// Ruled: an ApprovalRule is about the change.
	Ruled bool
	// Child as it is before the change; its name is empty where it is yet to be
	// generated.
	Child v1alpha1.ClaimChild
	// Input of match; that of prereqs is made from it.
	Input *expression.Input
	// Desired state after the change; before it for a deletion.
	Desired map[string]any
	Parent  v1alpha1.ObjectReference
	// Intent generation of the parent.
	Intent int64
	// Digest is the id of the difference.
	Digest string
	// UserID of the requester.
	UserID string
	// Claim that an earlier call for the same request took; empty for none.
	Claim string
	Now   time.Time
	// Stale: pending claims from before are claimed again.
	Stale time.Time
}

// Excepted is a rule that approves a drift.
type Excepted struct {
	Exception *Exception
	// Rule in the spec, as in rules[0].
	Rule    string
	Content string
	Mode    v1alpha1.ApprovalMode
	// Claim that represents this use; nil for mode always.
	Claim *v1alpha1.PolicyClaim
	// NeedsClaim: the claim is not in the status yet, and must be written before
	// the change may pass.
	NeedsClaim bool
}

// Excepted returns the first rule that approves a drift. Policies are tried in the order of their names, and rules
// that need no claim first. warnings name rules that could not be evaluated, which approve nothing.
func (s *Set) Excepted(ctx context.Context, q ExceptionQuery) (found *Excepted, warnings []string) {
	var fresh *Excepted
	for _, list := range [][]*Exception{s.byUser[q.User], s.forAny} {
		for _, e := range list {
			x, w := e.excepts(ctx, &q)
			warnings = append(warnings, w...)
			if x != nil && !x.NeedsClaim {
				return x, warnings
			}
			if fresh == nil {
				fresh = x
			}
		}
	}
	return fresh, warnings
}

// reaches reports whether the policy's Namespace lets it approve the change. Where an ApprovalRule is about that, who may write a policy in
// another Namespace needs none of the rights that the rule requires (KR-14-60).
func (e *Exception) reaches(q *ExceptionQuery) bool {
	at := q.Child.Namespace
	return e.covers(q.User, at) && (!q.OtherActor || e.admits(at)) && (!q.Ruled || e.Namespace == "" || e.Namespace == at)
}

// excepts returns the first rule that approves the drift. A rule that this request has already claimed takes
// precedence over a rule that would need a new claim, so that a retry uses no second one. warnings name rules with
// expressions that failed: they approve nothing.
func (e *Exception) excepts(ctx context.Context, q *ExceptionQuery) (found *Excepted, warnings []string) {
	if !e.speaksFor(q.User, q.Groups) || !e.reaches(q) {
		return nil, nil
	}
	if q.Input != nil {
		q.Input.For(e.Namespace, e.Key())
	}
	for i := range e.rules {
		r := &e.rules[i]
		ok, err := r.matches(ctx, q)
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("%s approves nothing by %s: %v", e.Key(), r.path, err))
		}
		if !ok {
			continue
		}
		x := &Excepted{Exception: e, Rule: r.path, Content: r.content, Mode: r.mode}
		if r.mode == v1alpha1.ApprovalAlways {
			return x, warnings
		}
		claim := r.claim(q)
		free, mine := Claimable(e.Claims, claim, q.Stale)
		switch {
		case mine != nil:
			x.Claim = mine
			return x, warnings
		case free && found == nil:
			x.Claim, x.NeedsClaim = &claim, true
			found = x
		}
	}
	return found, warnings
}

// matches reports whether a rule is about the child and the change, in the order of
// the cost: globs, then CEL, then the regular expression (KR-05-50).
func (r *exceptionRule) matches(ctx context.Context, q *ExceptionQuery) (bool, error) {
	switch {
	case !r.expiry.IsZero() && !q.Now.Before(r.expiry),
		!r.apiVersion.match(q.Child.APIVersion), !r.kind.match(q.Child.Kind),
		!r.namespace.match(q.Child.Namespace), !r.name.match(q.Child.Name):
		return false, nil
	}
	if r.prereqs != nil {
		if q.Input.OldObject == nil {
			return false, nil
		}
		if ok, err := r.prereqs.True(ctx, q.Input.Before()); !ok || err != nil {
			return false, err
		}
	}
	if r.match != nil {
		if ok, err := r.match.True(ctx, q.Input); !ok || err != nil {
			return false, err
		}
	}
	if r.regexp == nil {
		return true, nil
	}
	raw, err := json.Marshal(q.Desired) // sorted keys, no white space
	if err != nil {
		return false, fmt.Errorf("cannot write the desired state as JSON: %w", err)
	}
	return r.regexp.Match(raw), nil
}

// claim returns the claim of a rule for a query: of one use for mode once, of a parent at an intent for mode
// generation.
func (r *exceptionRule) claim(q *ExceptionQuery) v1alpha1.PolicyClaim {
	c := v1alpha1.PolicyClaim{Rule: r.content, Parent: q.Parent, Generation: q.Intent, At: metav1.NewTime(q.Now.UTC().Truncate(time.Second))}
	c.Parent.Generation = 0 // of the object; moves by itself
	if r.mode == v1alpha1.ApprovalOnce {
		child := q.Child
		c.State, c.Child, c.Digest, c.User = v1alpha1.ClaimPending, &child, q.Digest, q.UserID
	}
	c.ID = claimID(c, q.Now)
	if r.mode == v1alpha1.ApprovalOnce && q.Claim != "" {
		c.ID = q.Claim
	}
	return c
}

// claimID returns the id of a claim: a hash of the fields that are equal in a retry.
func claimID(c v1alpha1.PolicyClaim, now time.Time) string {
	key := []any{c.Rule, c.Parent, c.Generation}
	if c.Child != nil {
		key = append(key, *c.Child, c.Digest, c.User)
		if c.Child.Name == "" {
			key = append(key, now.UnixNano()) // each creation is a use of its own
		}
	}
	return annotation.Digest(key, digestLength)
}

// MaxPolicyClaims in the status of one policy. A policy that has as many lets
// nothing new through: to forget a claim would let the same through once more.
const MaxPolicyClaims = 1024

// Claimable reports whether a claim may be added to those of a policy; mine is the claim that represents the same use
// already. A claim of mode once keeps every other claim of its rule out, a claim of mode generation those of the same
// parent at another intent.
//
// A claim of the same use that is pending since before stale is about to be released, and may be added again, in its
// place (Claimed): its own write would otherwise land after another use was free to take the rule. A creation that
// landed and is tried again made an object that has been deleted since (KR-05-51).
func Claimable(claims []v1alpha1.PolicyClaim, claim v1alpha1.PolicyClaim, stale time.Time) (free bool, mine *v1alpha1.PolicyClaim) {
	for i := range claims {
		have := &claims[i]
		if have.Rule != claim.Rule {
			continue
		}
		pending := have.State == v1alpha1.ClaimPending
		switch {
		case have.ID == claim.ID && pending && have.At.Time.Before(stale):
			return true, nil
		case have.ID == claim.ID && !pending && have.Child != nil && have.Child.UID == "":
			return false, nil
		case have.ID == claim.ID:
			return false, have
		case claim.Child != nil, have.Child != nil, have.Parent.UID == claim.Parent.UID:
			return false, nil
		}
	}
	return len(claims) < MaxPolicyClaims, nil
}

// Claimed returns the claims with one more claim, which replaces the one of the same use.
func Claimed(claims []v1alpha1.PolicyClaim, claim v1alpha1.PolicyClaim) []v1alpha1.PolicyClaim {
	out := slices.Clone(claims)
	i := slices.IndexFunc(out, func(have v1alpha1.PolicyClaim) bool { return have.Rule == claim.Rule && have.ID == claim.ID })
	if i < 0 {
		return append(out, claim)
	}
	out[i] = claim
	return out
}

// Landing is what became of a pending claim, as it was when that was found out.
type Landing struct {
	Claim v1alpha1.PolicyClaim
	// State is ClaimUsed, or ClaimOpen where the change is known not to have landed.
	State v1alpha1.ClaimState
}

// Finished returns the claims after the landings of some of them are known: those that are used stay, those that are
// open are released. A claim that was taken again in the meantime is not changed.
func Finished(claims []v1alpha1.PolicyClaim, landings []Landing) []v1alpha1.PolicyClaim {
	out := make([]v1alpha1.PolicyClaim, 0, len(claims))
	for _, c := range claims {
		i := slices.IndexFunc(landings, func(l Landing) bool {
			return c.State == v1alpha1.ClaimPending && l.Claim.Rule == c.Rule && l.Claim.ID == c.ID && l.Claim.At.Equal(&c.At)
		})
		switch {
		case i < 0:
		case landings[i].State == v1alpha1.ClaimOpen:
			continue
		default:
			c.State = landings[i].State
		}
		out = append(out, c)
	}
	return out
}
