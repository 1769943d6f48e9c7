package iam

import (
	"fmt"
	"strings"
)

// Decision about a request.
type Decision string

// Decisions.
const (
	// Allowed by all kinds of policies that apply.
	Allowed Decision = "Allowed"
	// Denied by a statement, whatever others allow.
	Denied Decision = "Denied"
	// NotAllowed: no statement denies it, and a kind of policies does not allow it.
	NotAllowed Decision = "NotAllowed"
)

// Policies that apply to a request.
type Policies struct {
	// Organization are the service control policies; nil outside of an organization.
	Organization []*Policy
	// Boundary of the principal; nil for none.
	Boundary *Policy
	// Identity are the policies attached to the principal.
	Identity []*Policy
	// Trust is the trust policy of the role that is assumed; nil for a request that assumes none.
	Trust *Policy
}

// Evaluate decides about a request: an explicit deny wins; then every kind of policies that applies has to allow each of its actions. A trust policy that
// names the principal's role is enough within one account.
func Evaluate(p Policies, r *Request) (Decision, error) {
	if r.assumes() != (p.Trust != nil) {
		return "", fmt.Errorf("a trust policy is for AssumeRole, and AssumeRole needs one")
	}
	out := Allowed
	for _, act := range r.actions() {
		d, err := p.evaluate(act, r)
		if err != nil || d == Denied {
			return d, err
		}
		if d == NotAllowed {
			out = d
		}
	}
	return out, nil
}

func (p Policies) evaluate(act string, r *Request) (Decision, error) {
	kinds := []struct {
		policies []*Policy
		// allows: the kind has to allow the action; any other kind can only deny it.
		allows bool
	}{
		{policies: p.Organization, allows: p.Organization != nil},
		{policies: []*Policy{p.Boundary}, allows: p.Boundary != nil},
		{policies: []*Policy{p.Trust}, allows: p.Trust != nil},
		{policies: p.Identity, allows: p.Trust == nil || account(r.principal()) != account(r.resource())},
	}
	out := Allowed
	for _, kind := range kinds {
		allowed := false
		for _, policy := range kind.policies {
			effect, err := policy.effect(act, r)
			if err != nil || effect == Deny {
				return Denied, err
			}
			allowed = allowed || effect == Allow
		}
		if kind.allows && !allowed {
			out = NotAllowed
		}
	}
	return out, nil
}

// effect returns what a policy, which may be nil, does about an action; "" for nothing.
func (p *Policy) effect(act string, r *Request) (out Effect, err error) {
	if p == nil {
		return "", nil
	}
	for i := range p.Statement {
		s := &p.Statement[i]
		switch ok, err := s.matches(act, r); {
		case err != nil:
			return "", fmt.Errorf("statement %s: %w", s.Sid, err)
		case ok && s.Effect == Deny:
			return Deny, nil
		case ok:
			out = Allow
		}
	}
	return out, nil
}

// account returns that of an ARN; "" for one without, as of a bucket.
func account(arn string) string {
	if parts := strings.SplitN(arn, ":", 6); len(parts) == 6 {
		return parts[4]
	}
	return ""
}
