package allowance

import (
	"fmt"
	"slices"
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

// inWindow of an hour, in Berlin.
func inWindow(spec v1alpha1.ApprovalRuleSpec, schedule string) v1alpha1.ApprovalRuleSpec {
	spec.Windows = &v1alpha1.ApprovalWindows{TimeZone: "Europe/Berlin",
		Allow: []v1alpha1.ApprovalWindow{{Schedule: schedule, Duration: metav1.Duration{Duration: time.Hour}}}}
	return spec
}

// Of several rules the next change of any window counts (KR-14-16).
func TestRulesWindows(t *testing.T) {
	one := []v1alpha1.RequiredVotes{{Count: 1}}
	all := v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}}
	spec := v1alpha1.ApprovalRuleSpec{Match: all, Require: one}
	open, closed, without := compiledRule(t, inWindow(spec, "0 10 * * *")), compiledRule(t, inWindow(spec, "30 10 * * *")), compiledRule(t, spec)
	if _, windowed := (Rules{without}).Windows(nil, votedAt); windowed {
		t.Error("a rule without windows has some")
	}
	for name, tc := range map[string]struct {
		rules Rules
		open  bool
		until time.Duration
	}{
		"Open":   {rules: Rules{without, open}, open: true, until: time.Hour},
		"Closed": {rules: Rules{closed}, until: 30 * time.Minute},
		"Both":   {rules: Rules{open, closed}, until: 30 * time.Minute},
	} {
		s, windowed := tc.rules.Windows(nil, votedAt)
		if !windowed || s.Open != tc.open || !s.Until.Equal(votedAt.Add(tc.until)) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Windows that are not right make the rule one that no vote meets, which matches all the same (KR-14-14).
func TestWindowsCompile(t *testing.T) {
	all := v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}}
	spec := inWindow(v1alpha1.ApprovalRuleSpec{Match: all, Require: []v1alpha1.RequiredVotes{{Count: 1}}}, "0 0 30 2 *")
	r, errs := CompileRule(&v1alpha1.ApprovalRule{ObjectMeta: metav1.ObjectMeta{Name: "production"}, Spec: spec})
	if len(errs) != 1 || errs[0].Error() != `spec.windows.allow[0].schedule: "0 0 30 2 *": that never comes` {
		t.Fatalf("errors %v", errs)
	}
	got, waits := (Rules{r}).Lacks([]v1alpha1.Vote{vote("anna")}, Authors{}, votedAt)
	if got != "ApprovalRule production does not compile, see its status" || waits {
		t.Errorf("lacks %q, waits %t", got, waits)
	}
}

// TestLacks covers KR-14-03, KR-14-05, KR-14-06, KR-14-08, KR-14-09 and KR-14-13.
func TestLacks(t *testing.T) {
	dba := []v1alpha1.Subject{{Kind: v1alpha1.SubjectGroup, Name: "dba"}}
	everything := v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}}
	two := v1alpha1.ApprovalRuleSpec{Match: everything, Require: []v1alpha1.RequiredVotes{{Count: 2, Subjects: dba, NotAuthors: true}}}
	refusing := v1alpha1.ApprovalRuleSpec{Match: everything,
		Require: []v1alpha1.RequiredVotes{{Count: 1, Subjects: dba, NotAuthors: true, UnknownAuthors: v1alpha1.UnknownAuthorsRefuse}}}
	requester := vote("bob", "dba")
	requester.Author = true
	agent := vote("agent", "dba")
	agent.OnBehalfOf = "anna"
	broken := vote("eve", "oncall")
	broken.BreakGlass = "it burns"
	for name, tc := range map[string]struct {
		spec    v1alpha1.ApprovalRuleSpec
		votes   []v1alpha1.Vote
		authors []string
		unread  []string
		later   time.Duration
		want    string
		waits   bool
	}{
		"None": {spec: two, want: "0 of 2 approvals; needs 2 more of group dba" + production},
		"One": {spec: two, votes: []v1alpha1.Vote{vote("anna", "dba")}, authors: []string{"hans"},
			want: "1 of 2 approvals (anna); needs 1 more of group dba, not hans" + production},
		"Two": {spec: two, votes: []v1alpha1.Vote{vote("anna", "dba"), vote("bob", "dba")}},
		"Stranger": {spec: two, votes: []v1alpha1.Vote{vote("anna", "dba"), vote("carl")},
			want: "1 of 2 approvals (anna); needs 1 more of group dba" + production},
		"Author": {spec: two, votes: []v1alpha1.Vote{vote("anna", "dba"), vote("hans", "dba")}, authors: []string{"hans", "zoe"},
			want: "1 of 2 approvals (anna); needs 1 more of group dba, not hans or zoe" + production},
		"Requester": {spec: two, votes: []v1alpha1.Vote{vote("anna", "dba"), requester}, want: "1 of 2 approvals (anna); needs 1 more of group dba" + production},
		"UnknownAuthor": {spec: two, votes: []v1alpha1.Vote{vote("anna", "dba")}, authors: []string{"hans", "", "system:serviceaccount:ci:ci"},
			want: "1 of 2 approvals (anna); needs 1 more of group dba, not hans (one author is unknown, " +
				"the user behind system:serviceaccount:ci:ci is unknown)" + production},
		"UnknownAuthorIgnored": {spec: two, votes: []v1alpha1.Vote{vote("anna", "dba"), vote("bob", "dba")}, authors: []string{""}},
		"UnknownAuthorRefused": {spec: refusing, votes: []v1alpha1.Vote{vote("anna", "dba")}, authors: []string{""},
			want: "votes do not count, since an author of the change is not known by name: one author is unknown" + production},
		"UnreadAuthor": {spec: two, votes: []v1alpha1.Vote{vote("anna", "dba"), vote("bob", "dba")}, unread: []string{"db-2"},
			want: "votes do not count as long as authors of the change cannot be read: those of db-2" + production},
		"UnreadAuthorMayVote": {spec: v1alpha1.ApprovalRuleSpec{Match: everything, Require: []v1alpha1.RequiredVotes{{Count: 1}}},
			votes: []v1alpha1.Vote{vote("anna")}, unread: []string{"db-2"}},
		"KnownAuthor": {spec: refusing, votes: []v1alpha1.Vote{vote("anna", "dba")}, authors: []string{"hans"}},
		"Agent":       {spec: two, votes: []v1alpha1.Vote{vote("anna", "dba"), agent}, want: "1 of 2 approvals (anna); needs 1 more of group dba" + production},
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
		"Expired": {spec: v1alpha1.ApprovalRuleSpec{Match: everything, Require: two.Require, ExpiresAfter: &v1alpha1.Period{Duration: time.Hour}},
			votes: []v1alpha1.Vote{vote("anna", "dba"), vote("bob", "dba")}, later: time.Hour, want: "0 of 2 approvals; needs 2 more of group dba" + production},
		"NotExpired": {spec: v1alpha1.ApprovalRuleSpec{Match: everything, Require: two.Require, ExpiresAfter: &v1alpha1.Period{Duration: time.Hour}},
			votes: []v1alpha1.Vote{vote("anna", "dba"), vote("bob", "dba")}, later: time.Hour - time.Second},
		"BreakGlass": {spec: v1alpha1.ApprovalRuleSpec{Match: everything, Require: two.Require, BreakGlass: &v1alpha1.BreakGlass{Subjects: []v1alpha1.Subject{
			{Kind: v1alpha1.SubjectGroup, Name: "oncall"}}}}, votes: []v1alpha1.Vote{broken}},
		"Closed": {spec: inWindow(two, "0 17 * * *"), votes: []v1alpha1.Vote{vote("anna", "dba"), vote("bob", "dba")},
			want: "window opens Mon 17:00 CET" + production, waits: true},
		"ClosedAndOne": {spec: inWindow(two, "0 17 * * *"), votes: []v1alpha1.Vote{vote("anna", "dba")}, authors: []string{"hans"},
			want: "1 of 2 approvals (anna); needs 1 more of group dba, not hans; window opens Mon 17:00 CET" + production},
		"Open":        {spec: inWindow(two, "0 10 * * *"), votes: []v1alpha1.Vote{vote("anna", "dba"), vote("bob", "dba")}},
		"OpenAndNone": {spec: inWindow(two, "0 10 * * *"), want: "0 of 2 approvals; needs 2 more of group dba" + production},
		"ClosedBreakGlass": {spec: inWindow(v1alpha1.ApprovalRuleSpec{Match: everything, Require: two.Require,
			BreakGlass: &v1alpha1.BreakGlass{Subjects: []v1alpha1.Subject{{Kind: v1alpha1.SubjectGroup, Name: "oncall"}}}}, "0 17 * * *"),
			votes: []v1alpha1.Vote{broken}},
		"ClosedBreakGlassOfOthers": {spec: inWindow(two, "0 17 * * *"), votes: []v1alpha1.Vote{broken, vote("anna", "dba"), vote("bob", "dba")},
			want: "window opens Mon 17:00 CET" + production, waits: true},
		"BreakGlassOfOthers": {spec: two, votes: []v1alpha1.Vote{broken}, want: "0 of 2 approvals; needs 2 more of group dba" + production},
	} {
		t.Run(name, func(t *testing.T) {
			got, waits := (Rules{compiledRule(t, tc.spec)}).Lacks(tc.votes, Authors{Names: tc.authors, Unread: tc.unread}, votedAt.Add(tc.later))
			if got != tc.want || waits != tc.waits {
				t.Errorf("lacks %q, waits %t, want %q, %t", got, waits, tc.want, tc.waits)
			}
		})
	}
}

// TestNamespaceSelector covers KR-14-23.
func TestNamespaceSelector(t *testing.T) {
	prod := &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "prod"}}
	for name, tc := range map[string]struct {
		selector  *metav1.LabelSelector
		namespace string
		labels    map[string]string
		want      bool
	}{
		"Selected":      {selector: prod, namespace: "shop", labels: map[string]string{"stage": "prod", "team": "a"}, want: true},
		"Others":        {selector: prod, namespace: "shop", labels: map[string]string{"stage": "dev"}},
		"None":          {selector: prod, namespace: "shop", labels: map[string]string{}},
		"Unknown":       {selector: prod, namespace: "shop", want: true},
		"ClusterScoped": {selector: prod},
		"All":           {selector: &metav1.LabelSelector{}, namespace: "shop", labels: map[string]string{}, want: true},
		"AllNamespaced": {selector: &metav1.LabelSelector{}},
		"Expression": {selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "stage", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"dev"}}}}, namespace: "shop", labels: map[string]string{}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := compiledRule(t, v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{NamespaceSelector: tc.selector},
				Require: []v1alpha1.RequiredVotes{{Count: 1}}})
			c := &Change{Namespace: tc.namespace, NamespaceLabels: tc.labels}
			if got := len(NewSet(nil, nil, nil).WithRules([]*Rule{r}).Matching(c)) == 1; got != tc.want {
				t.Errorf("matches: %t, want %t", got, tc.want)
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
	sync, creation, unknown := *resize, *resize, *resize
	sync.Verbs, creation.Creates, unknown.Changes = []v1alpha1.Verb{v1alpha1.VerbCreate, v1alpha1.VerbUpdate}, true, nil
	for name, tc := range map[string]struct {
		match v1alpha1.ApprovalRuleMatch
		of    *Change
		want  bool
	}{
		"Kind": {match: v1alpha1.ApprovalRuleMatch{Resources: []v1alpha1.ApprovalRuleResource{
			{Group: "example.org", Kinds: []string{"Other", "Database"}}}}, want: true},
		"AnyGroup":        {match: v1alpha1.ApprovalRuleMatch{Resources: []v1alpha1.ApprovalRuleResource{{Group: "*", Kinds: []string{"Database"}}}}, want: true},
		"AnyKind":         {match: v1alpha1.ApprovalRuleMatch{Resources: []v1alpha1.ApprovalRuleResource{{Group: "example.org", Kinds: []string{"*"}}}}, want: true},
		"OtherGroup":      {match: v1alpha1.ApprovalRuleMatch{Resources: []v1alpha1.ApprovalRuleResource{{Group: "", Kinds: []string{"Database"}}}}},
		"Namespace":       {match: v1alpha1.ApprovalRuleMatch{Namespaces: []string{"team-*", "sh?p"}}, want: true},
		"OtherNamespace":  {match: v1alpha1.ApprovalRuleMatch{Namespaces: []string{"team-*"}}},
		"Labels":          {match: v1alpha1.ApprovalRuleMatch{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "prod"}}}, want: true},
		"OtherLabels":     {match: v1alpha1.ApprovalRuleMatch{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "dev"}}}},
		"Path":            {match: v1alpha1.ApprovalRuleMatch{Paths: []string{"spec.forProvider.size"}}, want: true},
		"OtherPath":       {match: v1alpha1.ApprovalRuleMatch{Paths: []string{"spec.forProvider.sizes"}}},
		"PathOfDeletion":  {match: v1alpha1.ApprovalRuleMatch{Paths: []string{"spec.forProvider.other"}}, of: &deletion, want: true},
		"PathOfSync":      {match: v1alpha1.ApprovalRuleMatch{Paths: []string{"spec.forProvider.size"}}, of: &sync, want: true},
		"OtherPathOfSync": {match: v1alpha1.ApprovalRuleMatch{Paths: []string{"spec.forProvider.other"}}, of: &sync},
		"PathOfCreation":  {match: v1alpha1.ApprovalRuleMatch{Paths: []string{"spec.forProvider.other"}}, of: &creation, want: true},
		"PathOfUnknown":   {match: v1alpha1.ApprovalRuleMatch{Paths: []string{"spec.forProvider.other"}}, of: &unknown, want: true},
		"Verb":            {match: v1alpha1.ApprovalRuleMatch{Verbs: []v1alpha1.Verb{v1alpha1.VerbDelete}}, of: &deletion, want: true},
		"OtherVerb":       {match: v1alpha1.ApprovalRuleMatch{Verbs: []v1alpha1.Verb{v1alpha1.VerbDelete}}},
		"Relation":        {match: v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationControllerChild}}},
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

// TestNeverMet covers KR-14-24: more votes than the subjects could ever cast.
func TestNeverMet(t *testing.T) {
	user := func(name string) v1alpha1.Subject { return v1alpha1.Subject{Kind: v1alpha1.SubjectUser, Name: name} }
	group := func(name string) v1alpha1.Subject { return v1alpha1.Subject{Kind: v1alpha1.SubjectGroup, Name: name} }
	robot := v1alpha1.Subject{Kind: v1alpha1.SubjectServiceAccount, Namespace: "ci", Name: "ci"}
	for name, tc := range map[string]struct {
		count    int32
		subjects []v1alpha1.Subject
		machines bool
		want     string
	}{
		"Users":        {count: 2, subjects: []v1alpha1.Subject{user("anna"), user("bob")}},
		"TooFew":       {count: 3, subjects: []v1alpha1.Subject{user("anna"), user("bob")}, want: "3 votes are never cast: its subjects are 2 users"},
		"Twice":        {count: 2, subjects: []v1alpha1.Subject{user("anna"), user("anna")}, want: "2 votes are never cast: its subjects are 1 users"},
		"Group":        {count: 16, subjects: []v1alpha1.Subject{group("dba")}},
		"GroupAndUser": {count: 16, subjects: []v1alpha1.Subject{user("anna"), group("dba")}},
		"Anybody":      {count: 16},
		"Machine": {count: 1, subjects: []v1alpha1.Subject{robot},
			want: "1 of its subjects are machines, whose votes do not count, and 0 are users"},
		"MachineAllowed":  {count: 1, subjects: []v1alpha1.Subject{robot}, machines: true},
		"MachineTwice":    {count: 2, subjects: []v1alpha1.Subject{robot, user("system:serviceaccount:ci:ci")}, machines: true, want: "its subjects are 1 users"},
		"MachineUser":     {count: 1, subjects: []v1alpha1.Subject{user("system:admin")}, want: "1 of its subjects are machines"},
		"MachineAndUser":  {count: 2, subjects: []v1alpha1.Subject{robot, user("anna")}, want: "and 1 are users"},
		"MachineGroup":    {count: 1, subjects: []v1alpha1.Subject{group("system:serviceaccounts:ci")}, want: "1 of its subjects are machines"},
		"Nodes":           {count: 1, subjects: []v1alpha1.Subject{group("system:nodes")}, want: "1 of its subjects are machines"},
		"GroupOfPersons":  {count: 9, subjects: []v1alpha1.Subject{group("system:serviceaccounts"), group("system:masters")}},
		"MachinesOfGroup": {count: 9, subjects: []v1alpha1.Subject{group("system:serviceaccounts")}, machines: true},
	} {
		t.Run(name, func(t *testing.T) {
			persons := !tc.machines
			_, errs := CompileRule(&v1alpha1.ApprovalRule{Spec: v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}},
				Require: []v1alpha1.RequiredVotes{{Count: 1}, {Count: tc.count, Subjects: tc.subjects, People: &persons}}}})
			switch {
			case tc.want == "" && len(errs) == 0:
			case tc.want == "" || len(errs) != 1 || errs[0].Field != "spec.require[1].count" || !strings.Contains(errs[0].Message, tc.want):
				t.Errorf("errors %v, want %q", errs, tc.want)
			}
		})
	}
}

// TestAppliesTo covers KR-14-20: a rule is about drift and external changes unless it names others.
func TestAppliesTo(t *testing.T) {
	drift, external, expected, origin := v1alpha1.AppliesToDrift, v1alpha1.AppliesToExternal, v1alpha1.AppliesToExpected, v1alpha1.AppliesToNewOrigin
	for name, tc := range map[string]struct {
		to   []v1alpha1.AppliesTo
		want []v1alpha1.AppliesTo
	}{
		"None":     {want: []v1alpha1.AppliesTo{drift, external}},
		"Drift":    {to: []v1alpha1.AppliesTo{drift}, want: []v1alpha1.AppliesTo{drift}},
		"External": {to: []v1alpha1.AppliesTo{external}, want: []v1alpha1.AppliesTo{external}},
		"Expected": {to: []v1alpha1.AppliesTo{expected}, want: []v1alpha1.AppliesTo{expected}},
		"Origins":  {to: []v1alpha1.AppliesTo{origin, drift}, want: []v1alpha1.AppliesTo{drift, origin}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := inWindow(v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{Namespaces: []string{"shop"}},
				Require: []v1alpha1.RequiredVotes{{Count: 1}}, AppliesTo: tc.to}, "0 17 * * *")
			set := NewSet(nil, nil, nil).WithRules([]*Rule{compiledRule(t, spec)})
			var got []v1alpha1.AppliesTo
			for _, c := range []Change{{Relation: v1alpha1.RelationControllerChild}, {Relation: v1alpha1.RelationExternal},
				{AppliesTo: expected, Relation: v1alpha1.RelationExternal}, {AppliesTo: origin}} {
				c.Namespace = "shop"
				if matches := len(set.Matching(&c)) == 1; matches != set.HasRulesOf(c.appliesTo()) {
					t.Errorf("HasRulesOf(%s) is %t", c.appliesTo(), !matches)
				} else if matches {
					got = append(got, c.appliesTo())
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("applies to %v, want %v", got, tc.want)
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
		"spec.match.namespaceSelector": {Match: v1alpha1.ApprovalRuleMatch{NamespaceSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Around"}}}}, Require: []v1alpha1.RequiredVotes{{Count: 1}}},
		"spec.match.labelSelector": {Match: v1alpha1.ApprovalRuleMatch{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"!": "a"}}},
			Require: []v1alpha1.RequiredVotes{{Count: 1}}},
		"spec.require":          {Match: v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}}},
		"spec.require[0].count": {Match: v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}}, Require: []v1alpha1.RequiredVotes{{Count: 0}}},
		"spec.appliesTo[1]": {Match: v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}}, Require: []v1alpha1.RequiredVotes{{Count: 1}},
			AppliesTo: []v1alpha1.AppliesTo{v1alpha1.AppliesToDrift, v1alpha1.AppliesToExpected}},
		"spec.appliesTo[0]": {Match: v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}}, Require: []v1alpha1.RequiredVotes{{Count: 1}},
			AppliesTo: []v1alpha1.AppliesTo{"Everything", v1alpha1.AppliesToDrift}},
		"spec.expiresAfter": {Match: v1alpha1.ApprovalRuleMatch{Namespaces: []string{"*"}},
			Require: []v1alpha1.RequiredVotes{{Count: 1}}, ExpiresAfter: &v1alpha1.Period{}},
	} {
		t.Run(field, func(t *testing.T) {
			r, errs := CompileRule(&v1alpha1.ApprovalRule{ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Spec: spec})
			if len(errs) != 1 || errs[0].Field != field {
				t.Fatalf("errors %v", errs)
			}
			c := &Change{Namespace: "shop", Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}}
			if got, _ := NewSet(nil, nil, nil).WithRules([]*Rule{r}).Matching(c).Lacks([]v1alpha1.Vote{vote("a"), vote("b")}, Authors{}, votedAt); got == "" {
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
