package allowance

import (
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Groups that the API server gives every user, and every ServiceAccount.
const (
	groupAuthenticated = "system:authenticated"
	groupAccounts      = "system:serviceaccounts"
	userAccounts       = "system:serviceaccount:"
)

// GroupsOf returns the groups of a user as far as the name reveals them: all groups of a ServiceAccount, and for any
// other user the one that all users are in. all is false where there may be more.
func GroupsOf(user string) (groups []string, all bool) {
	account, ok := strings.CutPrefix(user, userAccounts)
	if !ok {
		return []string{groupAuthenticated}, false
	}
	namespace, _, _ := strings.Cut(account, ":")
	return []string{groupAuthenticated, groupAccounts, groupAccounts + ":" + namespace}, true
}

// MayGrant reports whether a policy may have something to grant for an intent of a user with unknown groups, "" for
// an unknown user. It may where the user may be a subject, and one that may initiate a chain. below is true where the
// object has a parent: another subject may extend the allowances of the parent. Facts that cannot be known count as
// possible.
func (p *Compiled) MayGrant(user string, below bool) bool {
	groups, all := GroupsOf(user)
	return slices.ContainsFunc(p.subjects, func(s v1alpha1.PolicySubject) bool {
		unknown := user == "" || s.Kind == v1alpha1.SubjectGroup && !all
		return (s.MayInitiate || below) && (unknown || is(s.Subject, user, groups))
	})
}

// ForAnyUser returns the policy with every authenticated user for its subject, who may initiate. It is for a caller
// that can identify subjects only by MayGrant. The policy is not modified.
func (p *Compiled) ForAnyUser() *Compiled {
	out := *p
	out.subjects = []v1alpha1.PolicySubject{{Subject: v1alpha1.Subject{Kind: v1alpha1.SubjectGroup, Name: groupAuthenticated}, MayInitiate: true}}
	return &out
}

// Looked returns the fields of an object that trigger the policies' rules, each by the one or two names at the
// beginning of its path: ["spec", "size"] for spec.size and all below it. They are sorted, each once; fields that are
// below another one are left out. It is nil where there are no such fields.
func Looked(policies []*Compiled) (out [][]string) {
	var all [][]string
	for _, p := range policies {
		for _, r := range p.rules {
			for _, t := range r.triggers {
				all = append(all, t.Head(2)) // spec, and a field of it
			}
		}
	}
	slices.SortFunc(all, slices.Compare[[]string])
	for _, path := range all {
		if n := len(out); n > 0 && len(path) >= len(out[n-1]) && slices.Equal(out[n-1], path[:len(out[n-1])]) {
			continue
		}
		out = append(out, path)
	}
	return out
}
