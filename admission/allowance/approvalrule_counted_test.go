package allowance

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestCounted covers KR-14-09 and KR-14-10: who counted is named, and of the others why they do not count.
func TestCounted(t *testing.T) {
	everything, group := v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}}, func(name string) []v1alpha1.Subject {
		return []v1alpha1.Subject{{Kind: v1alpha1.SubjectGroup, Name: name}}
	}
	two := v1alpha1.ApprovalRuleSpec{Match: everything, Require: []v1alpha1.RequiredVotes{{Count: 2, Subjects: group("dba"), NotAuthors: true}},
		BreakGlass: &v1alpha1.BreakGlass{Subjects: group("oncall")}}
	broke := func(user string, groups ...string) v1alpha1.Vote {
		v := vote(user, groups...)
		v.BreakGlass = "outage"
		return v
	}
	agent := vote("agent", "dba")
	agent.OnBehalfOf = "anna"
	requester := vote("rita", "dba")
	requester.Author = true
	for name, tc := range map[string]struct {
		reason string
		votes  []v1alpha1.Vote
		want   []string
		why    map[string]string
	}{
		"Ordinary": {reason: "those outside of the group, authors and machines do not count", want: []string{"anna", "bob"},
			votes: []v1alpha1.Vote{vote("anna", "dba"), vote("eve"), vote("hans", "dba"), agent, vote("system:node:a", "dba"), requester, vote("bob", "dba")},
			why: map[string]string{"eve": "eve is not of group dba" + production, "hans": "hans is an author of the change, and authors do not vote" + production,
				"agent":         "agent acts on behalf of anna, and only users who are persons vote" + production,
				"rita":          "rita is an author of the change, and authors do not vote" + production,
				"system:node:a": "system:node:a is a machine, and only users who are persons vote" + production}},
		"Glass": {reason: "who breaks the glass counts alone", want: []string{"olga (outage)"},
			votes: []v1alpha1.Vote{broke("hans"), vote("anna", "dba"), broke("olga", "oncall")},
			why:   map[string]string{"hans": "hans is not of group dba" + production}},
		"NoGlass": {reason: "who may not break the glass casts an ordinary vote", want: []string{"anna", "bob"},
			votes: []v1alpha1.Vote{broke("anna", "dba"), vote("bob", "dba")}},
	} {
		t.Run(name, func(t *testing.T) {
			r, why := Rules{compiledRule(t, two)}, map[string]string{}
			var got []string
			for _, v := range r.Counted(tc.votes, Authors{Names: []string{"hans"}}, votedAt) {
				if v.BreakGlass != "" {
					v.User += " (" + v.BreakGlass + ")"
				}
				got = append(got, v.User)
			}
			for _, v := range tc.votes {
				if w := r.Discounted(v, Authors{Names: []string{"hans"}}, votedAt); w != "" {
					why[v.User] = w
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.why, why, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("reasons: -want, +got:\n%s", diff)
			}
		})
	}
}

// TestWithRulesOf covers KR-14-63: a rule that is watched and was not read yet applies, and one that both have applies as it was read.
func TestWithRulesOf(t *testing.T) {
	rule := func(name string) *Rule {
		r := compiledRule(t, v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}}, Require: []v1alpha1.RequiredVotes{{Count: 2}}})
		r.Name = name
		return r
	}
	both, read, watched := rule("both"), rule("read"), rule("watched")
	stored := NewSet(nil, nil, nil).WithRules([]*Rule{both, read})
	seen := NewSet(nil, nil, nil).WithRules([]*Rule{rule("both"), watched})
	got := stored.WithRulesOf(seen).Matching(&Change{Namespace: "shop", Relation: v1alpha1.RelationExternal, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}})
	if len(got) != 3 || got[0] != both || got[1] != read || got[2] != watched {
		t.Errorf("got %d rules", len(got))
	}
	if stored.WithRulesOf(nil) != stored || stored.WithRulesOf(NewSet(nil, nil, nil)) != stored {
		t.Error("there is nothing to add")
	}
}
