package allowance

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Set of compiled policies, indexed by what requests are looked up by. It is
// never modified and safe for concurrent use; nil is the empty Set.
type Set struct {
	byKind map[schema.GroupKind][]*Compiled
	// anyGroup are policies by kind alone, as the shorthand has them.
	anyGroup map[string][]*Compiled
	upgrades map[string][]*Upgrade
	// byUser are exceptions that name users or ServiceAccounts, forAny those that
	// must be asked for each.
	byUser map[string][]*Exception
	forAny []*Exception
}

// NewSet of policies; each slice may be nil. Within the Set policies stand in the
// order of their names, so that the same policies decide alike whatever order
// they come in.
func NewSet(policies []*Compiled, upgrades []*Upgrade, exceptions []*Exception) *Set {
	s := &Set{byKind: map[schema.GroupKind][]*Compiled{}, anyGroup: map[string][]*Compiled{},
		upgrades: map[string][]*Upgrade{}, byUser: map[string][]*Exception{}}
	for _, p := range sorted(policies, func(p *Compiled) string { return p.Name }) {
		switch {
		case p.target.kind == "":
		case p.target.anyGroup:
			s.anyGroup[p.target.kind] = append(s.anyGroup[p.target.kind], p)
		default:
			gk := schema.GroupKind{Group: p.target.group, Kind: p.target.kind}
			s.byKind[gk] = append(s.byKind[gk], p)
		}
	}
	for _, u := range sorted(upgrades, func(u *Upgrade) string { return u.Name }) {
		s.upgrades[u.user] = append(s.upgrades[u.user], u)
	}
	for _, e := range sorted(exceptions, func(e *Exception) string { return e.Key() }) {
		names, named := e.users()
		if !named {
			s.forAny = append(s.forAny, e)
			continue
		}
		for _, n := range names {
			s.byUser[n] = append(s.byUser[n], e)
		}
	}
	return s
}

func sorted[T any](in []T, name func(T) string) []T {
	out := slices.Clone(in)
	slices.SortStableFunc(out, func(a, b T) int { return strings.Compare(name(a), name(b)) })
	return out
}

// Policies is the Set itself: a Set that never changes is a source of policies.
func (s *Set) Policies() *Set { return s }

// Of a kind: the AllowancePolicies that target it, by name; nil for none.
func (s *Set) Of(gk schema.GroupKind) []*Compiled {
	if s == nil {
		return nil
	}
	exact, any := s.byKind[gk], s.anyGroup[gk.Kind]
	switch {
	case len(any) == 0:
		return exact
	case len(exact) == 0:
		return any
	}
	return sorted(append(slices.Clone(exact), any...), func(p *Compiled) string { return p.Name })
}

// Upgrading are the UpgradeAllowances of a user, by name; nil for none.
func (s *Set) Upgrading(user string) []*Upgrade {
	if s == nil {
		return nil
	}
	return s.upgrades[user]
}
