package approval

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func query() Query {
	return Query{
		APIVersion: "apps/v1", Kind: "Deployment", Name: "web", Resource: "frontend",
		Relation: v1alpha1.RelationControllerChild, Digests: []change.Digest{"d1"}, Intent: 5, Use: use(),
	}
}

func use() Use {
	return Use{Child: v1alpha1.ClaimChild{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "u1", Version: "g3"}, Digest: "d1", User: "13c7u"}
}

// TestApproved covers KR-05-11, KR-05-30, KR-05-31, KR-05-32.
func TestApproved(t *testing.T) {
	external := func(q Query) Query {
		q.Relation, q.Verbs = v1alpha1.RelationExternal, []v1alpha1.Verb{v1alpha1.VerbDelete}
		return q
	}
	named := func(q Query) Query {
		q = external(q)
		q.Named = true
		return q
	}
	nameless := func(q Query) Query { q.Name = ""; return q }

	cases := map[string]struct {
		reason string
		in     string
		query  func(Query) Query
		want   bool
	}{
		"Exact": {reason: "all as named", in: `[{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}]`,
			want: true},
		"NoAPIVersion": {reason: "an apiVersion that is not given is any", in: `[{"kind":"Deployment","name":"web"}]`,
			want: true},
		"Wildcards":    {reason: "each may be *", in: `[{"apiVersion":"*","kind":"*","name":"*"}]`, want: true},
		"OtherName":    {reason: "another child", in: `[{"kind":"Deployment","name":"db"}]`},
		"OtherKind":    {reason: "another child", in: `[{"kind":"StatefulSet","name":"web"}]`},
		"OtherVersion": {reason: "another child", in: `[{"apiVersion":"v1","kind":"Deployment","name":"web"}]`},
		"Resource": {reason: "by the composition resource name", in: `[{"kind":"Deployment","resource":"frontend"}]`,
			want: true},
		"OtherResource": {reason: "another composed resource", in: `[{"kind":"Deployment","resource":"backend"}]`},
		"AnyResource":   {reason: "wildcard", in: `[{"kind":"Deployment","resource":"*"}]`, want: true},
		"ResourceInsteadName": {reason: "resource is given instead of the name",
			in: `[{"kind":"Deployment","resource":"frontend","name":"old-name"}]`, want: true},
		"NamelessByResource": {reason: "a generated name is not known beforehand",
			in: `[{"kind":"Deployment","resource":"frontend"}]`, query: nameless, want: true},
		"NamelessByName":     {reason: "no name matches no name", in: `[{"kind":"Deployment","name":"web"}]`, query: nameless},
		"NamelessByWildcard": {reason: "but * does", in: `[{"kind":"Deployment","name":"*"}]`, query: nameless, want: true},
		"SecondEntry": {reason: "all entries are tried, not only the first",
			in: `[{"kind":"X","name":"a"},{"kind":"Deployment","name":"web"}]`, want: true},
		"StaleThenGood": {reason: "a stale entry does not hide a good one",
			in: `[{"kind":"Deployment","name":"web","generation":1},{"kind":"Deployment","name":"*","generation":5}]`, want: true},
		"GenerationAtIntent": {reason: "no new intent since", in: `[{"kind":"Deployment","name":"web","generation":5}]`, want: true},
		"GenerationPastIntent": {reason: "bumps without an intent do not count",
			in: `[{"kind":"Deployment","name":"web","generation":9,"mode":"generation"}]`, want: true},
		"GenerationStale": {reason: "an intent was made since", in: `[{"kind":"Deployment","name":"web","generation":4}]`},
		"GenerationStaleMode": {reason: "mode generation goes stale as well",
			in: `[{"kind":"Deployment","name":"web","generation":4,"mode":"generation"}]`},
		"AlwaysNeverStale": {reason: "always is always",
			in: `[{"kind":"Deployment","name":"web","generation":4,"mode":"always"}]`, want: true},
		"Digest": {reason: "what was seen is what happens", in: `[{"digest":"d1"}]`, want: true},
		"DigestOther": {reason: "exactly that difference and no other",
			in: `[{"kind":"Deployment","name":"web","digest":"d2"}]`},
		"DigestNamed": {reason: "a digest on top of a name", in: `[{"kind":"Deployment","name":"web","digest":"d1"}]`,
			want: true},
		"DigestOtherName": {reason: "both must fit", in: `[{"kind":"Deployment","name":"db","digest":"d1"}]`},
		"DigestKindOnly":  {reason: "a digest needs no name", in: `[{"kind":"Deployment","digest":"d1"}]`, want: true},
		"ChildIsNotExternal": {reason: "approving the object does not approve the cloud",
			in: `[{"kind":"*","name":"*","mode":"always"}]`, query: external},
		"ExternalIsNotChild": {reason: "nor the other way round",
			in: `[{"kind":"*","name":"*","relation":"External","verbs":["*"]}]`},
		"ExternalVerb": {reason: "the verb is given",
			in: `[{"kind":"*","name":"*","relation":"External","verbs":["Delete"]}]`, query: external, want: true},
		"ExternalAllVerbs": {reason: "* is every verb", in: `[{"kind":"*","name":"*","relation":"External","verbs":["*"]}]`,
			query: external, want: true},
		"ExternalAllVerbsNamed": {reason: "but of a managed resource no deletion", in: `[{"kind":"*","name":"*","relation":"External","verbs":["*"]}]`,
			query: named},
		"ExternalAllVerbsDigest": {reason: "unless the digest identifies it",
			in: `[{"kind":"*","name":"*","relation":"External","verbs":["*"],"digest":"d1"}]`, query: named, want: true},
		"ExternalDefault": {reason: "no verbs is Update alone", in: `[{"kind":"*","name":"*","relation":"External"}]`,
			query: external},
		"ExternalOtherVerb": {reason: "another verb",
			in: `[{"kind":"*","name":"*","relation":"External","verbs":["Create","Update"]}]`, query: external},
		"Unparsable": {reason: "absent", in: `[{"kind":"Deployment","name":"web"},{}]`},
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

// TestApprovedOnce covers KR-05-33, KR-05-34.
func TestApprovedOnce(t *testing.T) {
	value := `[{"kind":"Deployment","name":"web"}]`
	entry := Parse(annotations{keyApprovals: value}).Approvals[0]
	taken, claim := Claims{}.Take(Match{Entry: entry}, use(), now)

	cases := map[string]struct {
		reason  string
		claims  Claims
		use     func(*Use)
		want    bool
		claimed bool
	}{
		"Unclaimed": {reason: "free", want: true},
		"Open": {reason: "admitted, not used",
			claims: Claims{{Content: entry.Content, State: v1alpha1.ClaimOpen, Generation: 5}}, want: true},
		"OpenStale": {reason: "admitted before the last intent",
			claims: Claims{{Content: entry.Content, State: v1alpha1.ClaimOpen, Generation: 4}}},
		"SameUse": {reason: "a retry of the very same use needs no second claim", claims: taken, want: true, claimed: true},
		"Stale": {reason: "a retry so late that its claim may be released before it lands", claims: taken,
			use: func(u *Use) { u.Stale = now.Add(time.Second) }, want: true},
		"StaleReinvoked": {reason: "the request that took the claim", claims: taken,
			use: func(u *Use) { u.Stale, u.Claim = now.Add(time.Second), claim.ID }, want: true, claimed: true},
		"StaleOther": {reason: "another use", claims: taken,
			use: func(u *Use) { u.Stale, u.User = now.Add(time.Second), "other" }},
		"OtherUser":       {reason: "another use", claims: taken, use: func(u *Use) { u.User = "other" }},
		"OtherDifference": {reason: "another use", claims: taken, use: func(u *Use) { u.Digest = "d2" }},
		"OtherChild":      {reason: "another use", claims: taken, use: func(u *Use) { u.Child.UID = "u2" }},
		"OtherVersion": {reason: "the first write landed: this is the next one", claims: taken,
			use: func(u *Use) { u.Child.Version = "g4" }},
		"Nameless": {reason: "a nameless CREATE is always a new use", claims: taken, use: func(u *Use) { u.Child.Name = "" }},
		"Used":     {reason: "used up", claims: taken.Set(claim.ID, v1alpha1.ClaimUsed, now)},
		"Pruned":   {reason: "out of date", claims: taken.Set(claim.ID, v1alpha1.ClaimPruned, now)},
		"GivenBack": {reason: "the write was shown not to have landed: free again",
			claims: taken.Set(claim.ID, v1alpha1.ClaimOpen, now), want: true},
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
		s.Claims, _ = Claims{}.Take(Match{Entry: claimed}, use(), now)
		if m, ok := s.Approved(query()); !ok || m.NeedsClaim() || m.Entry.Content != claimed.Content {
			t.Errorf("claimed %+v, retried with %+v", claimed.Approval, m.Entry.Approval)
		}
	}
}

// TestRejected covers KR-05-38.
func TestRejected(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     string
		want   string
	}{
		"NoGeneration": {reason: "always", in: `[{"kind":"Deployment","name":"web","reason":"r"}]`, want: "r"},
		"AtIntent": {reason: "about this intent", in: `[{"kind":"Deployment","name":"web","generation":5,"reason":"r"}]`,
			want: "r"},
		"PastIntent": {reason: "none older than the intent", in: `[{"kind":"Deployment","name":"web","generation":6,"reason":"r"}]`,
			want: "r"},
		"Stale": {reason: "about an older intent", in: `[{"kind":"Deployment","name":"web","generation":4,"reason":"r"}]`},
		"Other": {reason: "about another child", in: `[{"kind":"Deployment","name":"db","reason":"r"}]`},
		"Second": {reason: "all entries are tried",
			in: `[{"kind":"X","name":"*","reason":"q"},{"kind":"*","name":"*","reason":"r"}]`, want: "r"},
		"Resource": {reason: "by the composition resource name", in: `[{"kind":"Deployment","resource":"frontend","reason":"r"}]`,
			want: "r"},
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

// TestSnoozed covers KR-02-08.
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
