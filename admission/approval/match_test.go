package approval

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func query() Query {
	return Query{
		APIVersion: "apps/v1", Kind: "Deployment", Name: "web", Resource: "frontend",
		Relation: v1alpha1.RelationControllerChild, Digests: []string{"d1"}, Intent: 5, Use: use(),
	}
}

func use() Use {
	return Use{Child: v1alpha1.ClaimChild{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "u1", Version: "g3"}, Digest: "d1", User: "13c7u"}
}

func TestApproved(t *testing.T) {
	external := func(q Query) Query {
		q.Relation, q.Verbs = v1alpha1.RelationExternal, []v1alpha1.Verb{v1alpha1.VerbDelete}
		return q
	}
	nameless := func(q Query) Query { q.Name = ""; return q }

	cases := map[string]struct {
		reason string
		in     string
		query  func(Query) Query
		want   bool
	}{
		"Exact":                {"all as named", `[{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}]`, nil, true},
		"NoAPIVersion":         {"an apiVersion that is not given is any", `[{"kind":"Deployment","name":"web"}]`, nil, true},
		"Wildcards":            {"each may be *", `[{"apiVersion":"*","kind":"*","name":"*"}]`, nil, true},
		"OtherName":            {"another child", `[{"kind":"Deployment","name":"db"}]`, nil, false},
		"OtherKind":            {"another child", `[{"kind":"StatefulSet","name":"web"}]`, nil, false},
		"OtherVersion":         {"another child", `[{"apiVersion":"v1","kind":"Deployment","name":"web"}]`, nil, false},
		"Resource":             {"by the composition resource name", `[{"kind":"Deployment","resource":"frontend"}]`, nil, true},
		"OtherResource":        {"another composed resource", `[{"kind":"Deployment","resource":"backend"}]`, nil, false},
		"AnyResource":          {"wildcard", `[{"kind":"Deployment","resource":"*"}]`, nil, true},
		"ResourceInsteadName":  {"resource is given instead of the name", `[{"kind":"Deployment","resource":"frontend","name":"old-name"}]`, nil, true},
		"NamelessByResource":   {"a generated name is not known beforehand", `[{"kind":"Deployment","resource":"frontend"}]`, nameless, true},
		"NamelessByName":       {"no name matches no name", `[{"kind":"Deployment","name":"web"}]`, nameless, false},
		"NamelessByWildcard":   {"but * does", `[{"kind":"Deployment","name":"*"}]`, nameless, true},
		"SecondEntry":          {"all entries are tried, not only the first", `[{"kind":"X","name":"a"},{"kind":"Deployment","name":"web"}]`, nil, true},
		"StaleThenGood":        {"a stale entry does not hide a good one", `[{"kind":"Deployment","name":"web","generation":1},{"kind":"Deployment","name":"*","generation":5}]`, nil, true},
		"GenerationAtIntent":   {"no new intent since", `[{"kind":"Deployment","name":"web","generation":5}]`, nil, true},
		"GenerationPastIntent": {"bumps without an intent do not count", `[{"kind":"Deployment","name":"web","generation":9,"mode":"generation"}]`, nil, true},
		"GenerationStale":      {"an intent was made since", `[{"kind":"Deployment","name":"web","generation":4}]`, nil, false},
		"GenerationStaleMode":  {"mode generation goes stale as well", `[{"kind":"Deployment","name":"web","generation":4,"mode":"generation"}]`, nil, false},
		"AlwaysNeverStale":     {"always is always", `[{"kind":"Deployment","name":"web","generation":4,"mode":"always"}]`, nil, true},
		"Digest":               {"what was seen is what happens", `[{"digest":"d1"}]`, nil, true},
		"DigestOther":          {"exactly that difference and no other", `[{"kind":"Deployment","name":"web","digest":"d2"}]`, nil, false},
		"DigestNamed":          {"a digest on top of a name", `[{"kind":"Deployment","name":"web","digest":"d1"}]`, nil, true},
		"DigestOtherName":      {"both must fit", `[{"kind":"Deployment","name":"db","digest":"d1"}]`, nil, false},
		"DigestKindOnly":       {"a digest needs no name", `[{"kind":"Deployment","digest":"d1"}]`, nil, true},
		"ChildIsNotExternal":   {"approving the object does not approve the cloud", `[{"kind":"*","name":"*","mode":"always"}]`, external, false},
		"ExternalIsNotChild":   {"nor the other way round", `[{"kind":"*","name":"*","relation":"External","verbs":["*"]}]`, nil, false},
		"ExternalVerb":         {"the verb is given", `[{"kind":"*","name":"*","relation":"External","verbs":["Delete"]}]`, external, true},
		"ExternalAllVerbs":     {"* is every verb", `[{"kind":"*","name":"*","relation":"External","verbs":["*"]}]`, external, true},
		"ExternalDefault":      {"no verbs is Update alone", `[{"kind":"*","name":"*","relation":"External"}]`, external, false},
		"ExternalOtherVerb":    {"another verb", `[{"kind":"*","name":"*","relation":"External","verbs":["Create","Update"]}]`, external, false},
		"Unparsable":           {"absent", `[{"kind":"Deployment","name":"web"},{}]`, nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			q := query()
			if tc.query != nil {
				q = tc.query(q)
			}
			s := Parse(annotations{keyApprovals: tc.in})
			if _, got := s.Approved(q); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
			slices.Reverse(s.Approvals)
			if _, got := s.Approved(q); got != tc.want {
				t.Errorf("%s: the order of entries counts", tc.reason)
			}
		})
	}
}

func TestApprovedPrefersLasting(t *testing.T) {
	s := Parse(annotations{keyApprovals: `[{"kind":"Deployment","name":"web"},{"kind":"Deployment","name":"*","mode":"always"}]`})
	for range 2 {
		m, ok := s.Approved(query())
		if !ok || m.NeedsClaim() || m.Entry.Mode != v1alpha1.ApprovalAlways {
			t.Errorf("a once is spent where none is needed: %+v", m)
		}
		slices.Reverse(s.Approvals)
	}
}

func TestApprovedOnce(t *testing.T) {
	value := `[{"kind":"Deployment","name":"web"}]`
	entry := Parse(annotations{keyApprovals: value}).Approvals[0]
	taken, claim := Claims{}.Take(entry, use(), now)

	cases := map[string]struct {
		reason  string
		claims  Claims
		use     func(*Use)
		want    bool
		claimed bool
	}{
		"Unclaimed":       {"free", nil, nil, true, false},
		"Open":            {"admitted, not used", Claims{{Content: entry.Content, State: v1alpha1.ClaimOpen, Generation: 5}}, nil, true, false},
		"OpenStale":       {"admitted before the last intent", Claims{{Content: entry.Content, State: v1alpha1.ClaimOpen, Generation: 4}}, nil, false, false},
		"SameUse":         {"a retry of the very same use needs no second claim", taken, nil, true, true},
		"Stale":           {"a retry so late that its claim may be released before it lands", taken, func(u *Use) { u.Stale = now.Add(time.Second) }, true, false},
		"StaleReinvoked":  {"the request that took the claim", taken, func(u *Use) { u.Stale, u.Claim = now.Add(time.Second), claim.ID }, true, true},
		"StaleOther":      {"another use", taken, func(u *Use) { u.Stale, u.User = now.Add(time.Second), "other" }, false, false},
		"OtherUser":       {"another use", taken, func(u *Use) { u.User = "other" }, false, false},
		"OtherDifference": {"another use", taken, func(u *Use) { u.Digest = "d2" }, false, false},
		"OtherChild":      {"another use", taken, func(u *Use) { u.Child.UID = "u2" }, false, false},
		"OtherVersion":    {"the first write landed: this is the next one", taken, func(u *Use) { u.Child.Version = "g4" }, false, false},
		"Nameless":        {"a nameless CREATE is always a new use", taken, func(u *Use) { u.Child.Name = "" }, false, false},
		"Used":            {"used up", taken.Set(claim.ID, v1alpha1.ClaimUsed, now), nil, false, false},
		"Pruned":          {"out of date", taken.Set(claim.ID, v1alpha1.ClaimPruned, now), nil, false, false},
		"GivenBack":       {"the write was shown not to have landed: free again", taken.Set(claim.ID, v1alpha1.ClaimOpen, now), nil, true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := Parse(annotations{keyApprovals: value, keyClaims: tc.claims.String()})
			q := query()
			if tc.use != nil {
				tc.use(&q.Use)
			}
			m, ok := s.Approved(q)
			if ok != tc.want || (m.Claimed != nil) != tc.claimed {
				t.Errorf("%s: got %t, claimed %v", tc.reason, ok, m.Claimed)
			}
			if ok && m.NeedsClaim() == tc.claimed {
				t.Errorf("%s: NeedsClaim = %t", tc.reason, m.NeedsClaim())
			}
			if _, spent := s.Spent(q); !spent {
				t.Errorf("%s: Spent does not name the entry", tc.reason)
			}
		})
	}
}

// A second entry that fits must not be spent by the retry of a use that has
// claimed the first, in either order.
func TestApprovedRetryKeepsItsClaim(t *testing.T) {
	s := Parse(annotations{keyApprovals: `[{"kind":"Deployment","name":"web","generation":5},{"kind":"Deployment","name":"*","generation":5}]`})
	for _, claimed := range s.Approvals {
		s.Claims, _ = Claims{}.Take(claimed, use(), now)
		if m, ok := s.Approved(query()); !ok || m.NeedsClaim() || m.Entry.Content != claimed.Content {
			t.Errorf("claimed %+v, retried with %+v", claimed.Approval, m.Entry.Approval)
		}
	}
}

func TestRejected(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     string
		want   string
	}{
		"NoGeneration": {"always", `[{"kind":"Deployment","name":"web","reason":"r"}]`, "r"},
		"AtIntent":     {"about this intent", `[{"kind":"Deployment","name":"web","generation":5,"reason":"r"}]`, "r"},
		"PastIntent":   {"none older than the intent", `[{"kind":"Deployment","name":"web","generation":6,"reason":"r"}]`, "r"},
		"Stale":        {"about an older intent", `[{"kind":"Deployment","name":"web","generation":4,"reason":"r"}]`, ""},
		"Other":        {"about another child", `[{"kind":"Deployment","name":"db","reason":"r"}]`, ""},
		"Second":       {"all entries are tried", `[{"kind":"X","name":"*","reason":"q"},{"kind":"*","name":"*","reason":"r"}]`, "r"},
		"Resource":     {"by the composition resource name", `[{"kind":"Deployment","resource":"frontend","reason":"r"}]`, "r"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := Parse(annotations{keyRejections: tc.in}).Rejected(query())
			if ok != (tc.want != "") || got.Reason != tc.want {
				t.Errorf("%s: got %t, %q", tc.reason, ok, got.Reason)
			}
		})
	}
	if _, ok := Parse(annotations{keyRejections: "{"}).Rejected(query()); !ok {
		t.Error("rejections that do not parse must reject")
	}
}

func TestSnoozed(t *testing.T) {
	at := func(d time.Duration) *v1alpha1.Snooze { return &v1alpha1.Snooze{Expiry: metav1.NewTime(now.Add(d))} }
	got := map[string]bool{
		"never": Set{}.Snoozed(now), "running": Set{Snooze: at(time.Second)}.Snoozed(now),
		"over": Set{Snooze: at(-time.Second)}.Snoozed(now), "just over": Set{Snooze: at(0)}.Snoozed(now),
	}
	if diff := cmp.Diff(map[string]bool{"never": false, "running": true, "over": false, "just over": false}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
