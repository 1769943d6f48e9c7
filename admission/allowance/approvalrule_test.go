package allowance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var votedAt = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

func compiledRule(t *testing.T, spec v1alpha1.ApprovalRuleSpec) *Rule {
	t.Helper()
	r, errs := CompileRule(&v1alpha1.ApprovalRule{ObjectMeta: metav1.ObjectMeta{Name: "production"}, Spec: spec})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return r
}

const production = " (ApprovalRule production)"

func vote(user string, groups ...string) v1alpha1.Vote {
	return v1alpha1.Vote{User: user, Machine: strings.HasPrefix(user, "system:"), Groups: groups, At: metav1.NewTime(votedAt)}
}

// TestLacks covers KR-14-03, KR-14-05, KR-14-06, KR-14-08 and KR-14-09.
func TestLacks(t *testing.T) {
	dba := []v1alpha1.Subject{{Kind: v1alpha1.SubjectGroup, Name: "dba"}}
	everything := v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}}
	two := v1alpha1.ApprovalRuleSpec{Match: everything, Require: []v1alpha1.RequiredVotes{{Count: 2, Subjects: dba, NotAuthors: true}}}
	agent := vote("agent", "dba")
	agent.OnBehalfOf = "anna"
	broken := vote("eve", "oncall")
	broken.BreakGlass = "it burns"
	for name, tc := range map[string]struct {
		spec    v1alpha1.ApprovalRuleSpec
		votes   []v1alpha1.Vote
		authors []string
		later   time.Duration
		want    string
	}{
		"None": {spec: two, want: "0 of 2 approvals; needs 2 more of group dba" + production},
		"One": {spec: two, votes: []v1alpha1.Vote{vote("anna", "dba")}, authors: []string{"hans"},
			want: "1 of 2 approvals (anna); needs 1 more of group dba, not hans" + production},
		"Two": {spec: two, votes: []v1alpha1.Vote{vote("anna", "dba"), vote("bob", "dba")}},
		"Stranger": {spec: two, votes: []v1alpha1.Vote{vote("anna", "dba"), vote("carl")},
			want: "1 of 2 approvals (anna); needs 1 more of group dba" + production},
		"Author": {spec: two, votes: []v1alpha1.Vote{vote("anna", "dba"), vote("hans", "dba")}, authors: []string{"hans", "zoe"},
			want: "1 of 2 approvals (anna); needs 1 more of group dba, not hans or zoe" + production},
		"Agent": {spec: two, votes: []v1alpha1.Vote{vote("anna", "dba"), agent}, want: "1 of 2 approvals (anna); needs 1 more of group dba" + production},
		"Machine": {spec: two, votes: []v1alpha1.Vote{vote("system:serviceaccount:ci:ci", "dba")},
			want: "0 of 2 approvals; needs 2 more of group dba" + production},
		"MachineAllowed": {spec: v1alpha1.ApprovalRuleSpec{Match: everything, Require: []v1alpha1.RequiredVotes{{Count: 1, People: new(false),
			Subjects: []v1alpha1.Subject{{Kind: v1alpha1.SubjectServiceAccount, Namespace: "ci", Name: "ci"}}}}},
			votes: []v1alpha1.Vote{vote("system:serviceaccount:ci:ci")}},
		"Everybody": {spec: v1alpha1.ApprovalRuleSpec{Match: everything, Require: []v1alpha1.RequiredVotes{{Count: 1}}}, votes: []v1alpha1.Vote{vote("carl")}},
		"Several": {spec: v1alpha1.ApprovalRuleSpec{Match: everything,
			Require: []v1alpha1.RequiredVotes{{Count: 1, Subjects: dba}, {Count: 1, Subjects: []v1alpha1.Subject{
				{Kind: v1alpha1.SubjectUser, Name: "zoe"}}}}}, votes: []v1alpha1.Vote{vote("anna", "dba")},
			want: "0 of 1 approvals; needs 1 more of user zoe" + production},
		"Expired": {spec: v1alpha1.ApprovalRuleSpec{Match: everything, Require: two.Require, ExpiresAfter: &metav1.Duration{Duration: time.Hour}},
			votes: []v1alpha1.Vote{vote("anna", "dba"), vote("bob", "dba")}, later: time.Hour, want: "0 of 2 approvals; needs 2 more of group dba" + production},
		"NotExpired": {spec: v1alpha1.ApprovalRuleSpec{Match: everything, Require: two.Require, ExpiresAfter: &metav1.Duration{Duration: time.Hour}},
			votes: []v1alpha1.Vote{vote("anna", "dba"), vote("bob", "dba")}, later: time.Hour - time.Second},
		"BreakGlass": {spec: v1alpha1.ApprovalRuleSpec{Match: everything, Require: two.Require, BreakGlass: &v1alpha1.BreakGlass{Subjects: []v1alpha1.Subject{
			{Kind: v1alpha1.SubjectGroup, Name: "oncall"}}}}, votes: []v1alpha1.Vote{broken}},
		"BreakGlassOfOthers": {spec: two, votes: []v1alpha1.Vote{broken}, want: "0 of 2 approvals; needs 2 more of group dba" + production},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (Rules{compiledRule(t, tc.spec)}).Lacks(tc.votes, tc.authors, votedAt.Add(tc.later)); got != tc.want {
				t.Errorf("lacks %q, want %q", got, tc.want)
			}
		})
	}
}

// TestMatching covers KR-14-04.
func TestMatching(t *testing.T) {
	resize := &Change{Kind: schema.GroupKind{Group: "example.org", Kind: "Database"}, Namespace: "shop", Name: "orders",
		Labels: map[string]string{"tier": "prod"}, Relation: v1alpha1.RelationExternal, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate},
		Changes: []change.Change{{Path: "spec.forProvider.size", Verb: change.Mutate, Old: int64(2), New: int64(5)},
			{Path: "spec.forProvider.password", Verb: change.Mutate, Old: "a", New: "b", Secret: true}}}
	deletion := *resize
	deletion.Verbs, deletion.Changes = []v1alpha1.Verb{v1alpha1.VerbDelete}, nil
	for name, tc := range map[string]struct {
		match v1alpha1.ApprovalRuleMatch
		of    *Change
		want  bool
	}{
		"Kind": {match: v1alpha1.ApprovalRuleMatch{Resources: []v1alpha1.ApprovalRuleResource{
			{Group: "example.org", Kinds: []string{"Other", "Database"}}}}, want: true},
		"AnyGroup":       {match: v1alpha1.ApprovalRuleMatch{Resources: []v1alpha1.ApprovalRuleResource{{Group: "*", Kinds: []string{"Database"}}}}, want: true},
		"AnyKind":        {match: v1alpha1.ApprovalRuleMatch{Resources: []v1alpha1.ApprovalRuleResource{{Group: "example.org", Kinds: []string{"*"}}}}, want: true},
		"OtherGroup":     {match: v1alpha1.ApprovalRuleMatch{Resources: []v1alpha1.ApprovalRuleResource{{Group: "", Kinds: []string{"Database"}}}}},
		"Namespace":      {match: v1alpha1.ApprovalRuleMatch{Namespaces: []string{"team-*", "sh?p"}}, want: true},
		"OtherNamespace": {match: v1alpha1.ApprovalRuleMatch{Namespaces: []string{"team-*"}}},
		"Labels":         {match: v1alpha1.ApprovalRuleMatch{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "prod"}}}, want: true},
		"OtherLabels":    {match: v1alpha1.ApprovalRuleMatch{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "dev"}}}},
		"Path":           {match: v1alpha1.ApprovalRuleMatch{Paths: []string{"spec.forProvider.size"}}, want: true},
		"OtherPath":      {match: v1alpha1.ApprovalRuleMatch{Paths: []string{"spec.forProvider.sizes"}}},
		"PathOfDeletion": {match: v1alpha1.ApprovalRuleMatch{Paths: []string{"spec.forProvider.other"}}, of: &deletion, want: true},
		"Verb":           {match: v1alpha1.ApprovalRuleMatch{Verbs: []v1alpha1.Verb{v1alpha1.VerbDelete}}, of: &deletion, want: true},
		"OtherVerb":      {match: v1alpha1.ApprovalRuleMatch{Verbs: []v1alpha1.Verb{v1alpha1.VerbDelete}}},
		"Relation":       {match: v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationControllerChild}}},
		"Doubled": {match: v1alpha1.ApprovalRuleMatch{
			CEL: "change.exists(c, c.path.startsWith('spec.forProvider.size') && int(c.new) > 2 * int(c.old))"}, want: true},
		"Resource":     {match: v1alpha1.ApprovalRuleMatch{CEL: "resource.labels['tier'] == 'dev' || resource.name == 'carts'"}},
		"NotEvaluated": {match: v1alpha1.ApprovalRuleMatch{CEL: "resource.labels['team'] == 'a'"}, want: true},
		"SecretValue":  {match: v1alpha1.ApprovalRuleMatch{CEL: "change.exists(c, has(c.new) && c.new == 'b')"}},
	} {
		t.Run(name, func(t *testing.T) {
			of := tc.of
			if of == nil {
				of = resize
			}
			r := compiledRule(t, v1alpha1.ApprovalRuleSpec{Match: tc.match, Require: []v1alpha1.RequiredVotes{{Count: 1}}})
			if got := len(NewSet(nil, nil, nil).WithRules([]*Rule{r}).Matching(of)) == 1; got != tc.want {
				t.Errorf("matches: %t, want %t", got, tc.want)
			}
		})
	}
}

// A rule of which something does not compile is met by no vote, and makes no approval easier.
func TestBrokenRule(t *testing.T) {
	for field, spec := range map[string]v1alpha1.ApprovalRuleSpec{
		"spec.match":          {Require: []v1alpha1.RequiredVotes{{Count: 1}}},
		"spec.match.cel":      {Match: v1alpha1.ApprovalRuleMatch{CEL: "object.spec"}, Require: []v1alpha1.RequiredVotes{{Count: 1}}},
		"spec.match.paths[0]": {Match: v1alpha1.ApprovalRuleMatch{Paths: []string{"spec["}}, Require: []v1alpha1.RequiredVotes{{Count: 1}}},
		"spec.match.labelSelector": {Match: v1alpha1.ApprovalRuleMatch{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"!": "a"}}},
			Require: []v1alpha1.RequiredVotes{{Count: 1}}},
		"spec.require":          {Match: v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}}},
		"spec.require[0].count": {Match: v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}}, Require: []v1alpha1.RequiredVotes{{Count: 0}}},
		"spec.expiresAfter": {Match: v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}},
			Require: []v1alpha1.RequiredVotes{{Count: 1}}, ExpiresAfter: &metav1.Duration{}},
	} {
		t.Run(field, func(t *testing.T) {
			r, errs := CompileRule(&v1alpha1.ApprovalRule{ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Spec: spec})
			if len(errs) != 1 || errs[0].Field != field {
				t.Fatalf("errors %v", errs)
			}
			c := &Change{Namespace: "shop", Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}}
			if got := NewSet(nil, nil, nil).WithRules([]*Rule{r}).Matching(c).Lacks([]v1alpha1.Vote{vote("a"), vote("b")}, nil, votedAt); got == "" {
				t.Error("two votes are enough")
			}
		})
	}
}

// BenchmarkMatching is what a thousand rules cost where a change is not expected; where nothing is refused, none is evaluated.
func BenchmarkMatching(b *testing.B) {
	rules := make([]*Rule, 0, 1000)
	for i := range 1000 {
		r, _ := CompileRule(&v1alpha1.ApprovalRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Spec: v1alpha1.ApprovalRuleSpec{
			Match:   v1alpha1.ApprovalRuleMatch{Namespaces: []string{fmt.Sprintf("team-%d", i)}, Paths: []string{"spec.forProvider.size"}},
			Require: []v1alpha1.RequiredVotes{{Count: 2}}}})
		rules = append(rules, r)
	}
	set := NewSet(nil, nil, nil).WithRules(rules)
	c := &Change{Namespace: "team-500", Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}, Changes: []change.Change{{Path: "spec.forProvider.size"}}}
	for b.Loop() {
		if len(set.Matching(c)) != 1 {
			b.Fatal("no rule matches")
		}
	}
}
