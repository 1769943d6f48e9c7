package allowance

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Set is a set of compiled policies, indexed by the keys by which requests look them up. It is never modified and
// safe for concurrent use; nil is the empty Set.
type Set struct {
	byKind map[schema.GroupKind][]*Compiled
	// anyGroup are policies by kind alone, as the shorthand has them.
	anyGroup map[string][]*Compiled
	upgrades map[string][]*Upgrade
	// byUser are exceptions that name users or ServiceAccounts, forAny those that
	// must be read for each.
	byUser map[string][]*Exception
	forAny []*Exception
	// rules by their names, the groups that they name, and what they apply to.
	rules   []*Rule
	groups  sets.Set[string]
	applied sets.Set[v1alpha1.AppliesTo]
}

// NewSet returns a Set of policies; each slice may be nil. Within the Set policies are in the order of their names,
// so that the same policies decide alike in whatever order they are passed.
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

// WithRules returns a copy of the Set with ApprovalRules.
func (s *Set) WithRules(rules []*Rule) *Set {
	out := *s
	out.rules, out.groups = sorted(rules, func(r *Rule) string { return r.Name }), sets.New[string]()
	out.applied = sets.New[v1alpha1.AppliesTo]()
	for _, r := range rules {
		r.addGroups(out.groups)
		out.applied.Insert(r.appliesTo...)
	}
	return &out
}

// WithRulesOf returns the Set with those ApprovalRules of another one, nil for none, that it lacks by their names: one that was read may be
// older than one that is watched.
func (s *Set) WithRulesOf(other *Set) *Set {
	if !other.HasRules() {
		return s
	}
	all := slices.Clone(s.rules)
	for _, r := range other.rules {
		if !slices.ContainsFunc(s.rules, func(have *Rule) bool { return have.Name == r.Name }) {
			all = append(all, r)
		}
	}
	return s.WithRules(all)
}

// Policies returns the Set itself: a Set that never changes is a source of policies.
func (s *Set) Policies() *Set { return s }

// Of returns the AllowancePolicies that target a kind, by name; nil where no policy does.
func (s *Set) Of(gk schema.GroupKind) []*Compiled {
	if s == nil {
		return nil
	}
	exact, loose := s.byKind[gk], s.anyGroup[gk.Kind]
	switch {
	case len(loose) == 0:
		return exact
	case len(exact) == 0:
		return loose
	}
	return sorted(append(slices.Clone(exact), loose...), func(p *Compiled) string { return p.Name })
}

// Upgrading returns the UpgradeAllowances of a user, by name; nil where the user has no UpgradeAllowance.
func (s *Set) Upgrading(user string) []*Upgrade {
	if s == nil {
		return nil
	}
	return s.upgrades[user]
}

// Selecting returns the names of the UpgradeAllowances that select objects by these labels and not by the former; nil
// where no UpgradeAllowance does.
func (s *Set) Selecting(now, was map[string]string) []string {
	if s == nil {
		return nil
	}
	var out []string
	for _, list := range s.upgrades {
		for _, u := range list {
			if u.selector.Matches(labels.Set(now)) && !u.selector.Matches(labels.Set(was)) {
				out = append(out, u.Name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Empty reports whether no policy is in force.
func (s *Set) Empty() bool {
	return s == nil || len(s.byKind)+len(s.anyGroup)+len(s.upgrades)+len(s.byUser)+len(s.forAny)+len(s.rules) == 0
}

// WithClaims returns a copy of the Set with other claims of one policy: those that the API server stores, while the
// Set lags behind. policy is its Key.
func (s *Set) WithClaims(policy string, claims []v1alpha1.PolicyClaim) *Set {
	return s.replace(policy, func(e *Exception) *Exception { return e.WithClaims(claims) })
}

// Pending returns the exceptions with pending claims, each once. It is not known yet whether the changes of these
// claims landed.
func (s *Set) Pending() []*Exception {
	if s == nil {
		return nil
	}
	seen := map[string]bool{}
	var out []*Exception
	add := func(list []*Exception) {
		for _, e := range list {
			if !seen[e.Key()] && slices.ContainsFunc(e.Claims, func(c v1alpha1.PolicyClaim) bool { return c.State == v1alpha1.ClaimPending }) {
				seen[e.Key()] = true
				out = append(out, e)
			}
		}
	}
	add(s.forAny)
	for _, list := range s.byUser {
		add(list)
	}
	return sorted(out, (*Exception).Key)
}

// Without returns a copy of the Set without an ApprovalPolicy that has been deleted. policy is its Key.
func (s *Set) Without(policy string) *Set {
	return s.replace(policy, func(*Exception) *Exception { return nil })
}

// replace returns a copy of the Set in which an exception is replaced by another one, or removed where by returns
// nil. Requests that are being decided continue with the Set that they began with.
func (s *Set) replace(policy string, by func(*Exception) *Exception) *Set {
	if s == nil {
		return nil
	}
	swap := func(in []*Exception) []*Exception {
		out := make([]*Exception, 0, len(in))
		for _, e := range in {
			if e.Key() == policy {
				e = by(e)
			}
			if e != nil {
				out = append(out, e)
			}
		}
		return out
	}
	out := *s
	out.forAny, out.byUser = swap(s.forAny), make(map[string][]*Exception, len(s.byUser))
	for user, list := range s.byUser {
		out.byUser[user] = swap(list)
	}
	return &out
}
