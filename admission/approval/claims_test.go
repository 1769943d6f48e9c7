package approval

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func entry(t *testing.T, value string) Entry {
	t.Helper()
	s := Parse(annotations{keyApprovals: value})
	if len(s.Approvals) != 1 {
		t.Fatalf("want one approval in %s: %v", value, s.Warnings)
	}
	return s.Approvals[0]
}

func TestTake(t *testing.T) {
	e := entry(t, `[{"kind":"Deployment","name":"web","generation":7}]`)
	open := Claims{{Content: "other", State: v1alpha1.ClaimUsed}, {Content: e.Content, State: v1alpha1.ClaimOpen, Generation: 9}}
	before := slices.Clone(open)
	got, claim := open.Take(Match{Entry: e}, use(), now)

	child := use().Child
	want := v1alpha1.Claim{Content: e.Content, State: v1alpha1.ClaimPending, Generation: 9, At: Stamp(now), ID: claim.ID, Child: &child,
		Digest: "d1", User: "13c7u"}
	if diff := cmp.Diff(Claims{before[0], want}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(before, open); diff != "" {
		t.Errorf("input modified:\n%s", diff)
	}
	if len(claim.ID) != 12 {
		t.Errorf("want an id of 12 hex digits, got %q", claim.ID)
	}
	if _, again := open.Take(Match{Entry: e}, use(), now); again.ID != claim.ID {
		t.Error("same input, other id")
	}
	if _, later := open.Take(Match{Entry: e}, use(), now.Add(time.Nanosecond)); later.ID == claim.ID {
		t.Error("another use needs another id")
	}
	if fresh, c := (Claims{}).Take(Match{Entry: e}, use(), now); len(fresh) != 1 || c.Generation != 7 {
		t.Errorf("never admitted: the entry's own generation holds, got %+v", fresh)
	}
	if s := ParseClaims(got.String()); !cmp.Equal(s, got, cmpopts.EquateApproxTime(0)) {
		t.Errorf("does not survive its own form: %s", got)
	}
}

// A later webhook that changes the object makes another difference of it, in the
// same use still: by the claim's id, and by nothing less.
func TestUseAgainWithAnotherDifference(t *testing.T) {
	e := entry(t, `[{"kind":"Deployment","name":"web","generation":7}]`)
	taken, claim := Claims{}.Take(Match{Entry: e}, use(), now)
	for reason, tc := range map[string]struct {
		change func(*Use)
		want   bool
	}{
		"the id of the claim":         {change: func(u *Use) { u.Claim = claim.ID }, want: true},
		"no id":                       {change: func(*Use) {}},
		"another id":                  {change: func(u *Use) { u.Claim = "0123456789ab" }},
		"another user":                {change: func(u *Use) { u.Claim, u.User = claim.ID, "other" }},
		"the write has landed by now": {change: func(u *Use) { u.Claim, u.Child.Version = claim.ID, "g99" }},
	} {
		u := use()
		u.Digest = "d2"
		tc.change(&u)
		if claimed, free := taken.Use(e.Content, u); (claimed != nil) != tc.want || free != tc.want {
			t.Errorf("%s: claimed %v, free %t", reason, claimed, free)
		}
	}
}

// The API server tries a request again where another write came first. Of a kind without a generation, that is another version of the
// child by whatever was written: the claim of the first try is this use's, unless the trace shows a change of the desired state (KR-05-34).
func TestUseAgainAfterAConflict(t *testing.T) {
	e := entry(t, `[{"kind":"ConfigMap","name":"web","generation":7}]`)
	first := use()
	first.Child.Version = "rv10-taaa"
	taken, _ := Claims{}.Take(Match{Entry: e}, first, now)
	for reason, tc := range map[string]struct {
		change func(*Use)
		want   bool
	}{
		"another resourceVersion":         {change: func(*Use) {}, want: true},
		"its write, or another, landed":   {change: func(u *Use) { u.Child.Version = "rv11-tbbb" }},
		"another difference":              {change: func(u *Use) { u.Digest = "d2" }},
		"another user":                    {change: func(u *Use) { u.User = "other" }},
		"another object of that name":     {change: func(u *Use) { u.Child.UID = "other" }},
		"a generation":                    {change: func(u *Use) { u.Child.Version = "g11" }},
		"a version of an earlier release": {change: func(u *Use) { u.Child.Version = "rv11" }},
		"that version":                    {change: func(u *Use) { u.Child.Version = "rv10" }},
	} {
		u := use()
		u.Child.Version = "rv11-taaa"
		tc.change(&u)
		if claimed, free := taken.Use(e.Content, u); (claimed != nil) != tc.want || free != tc.want {
			t.Errorf("%s: claimed %v, free %t", reason, claimed, free)
		}
	}
}

// A claim that an earlier release took is of a resourceVersion alone.
func TestUseOfAnEarlierRelease(t *testing.T) {
	e := entry(t, `[{"kind":"ConfigMap","name":"web","generation":7}]`)
	first := use()
	first.Child.Version = "rv10"
	taken, _ := Claims{}.Take(Match{Entry: e}, first, now)
	for version, want := range map[string]bool{"rv10-taaa": true, "rv11-taaa": false, "rv1-taaa": false} {
		u := use()
		u.Child.Version = version
		if claimed, free := taken.Use(e.Content, u); (claimed != nil) != want || free != want {
			t.Errorf("%s: claimed %v, free %t", version, claimed, free)
		}
	}
}

func TestSetState(t *testing.T) {
	e := entry(t, `[{"kind":"Deployment","name":"web","generation":7}]`)
	taken, claim := Claims{}.Take(Match{Entry: e}, use(), now)
	later := now.Add(time.Minute)

	used := taken.Set(claim.ID, v1alpha1.ClaimUsed, later)
	if used[0].State != v1alpha1.ClaimUsed || used[0].ID != claim.ID || used[0].Child == nil || !used[0].At.Time.Equal(Stamp(later).Time) {
		t.Errorf("a used claim names its user: %+v", used[0])
	}
	open := taken.Set(claim.ID, v1alpha1.ClaimOpen, later)
	if diff := cmp.Diff(v1alpha1.Claim{Content: e.Content, State: v1alpha1.ClaimOpen, Generation: 7, At: Stamp(later)}, open[0]); diff != "" {
		t.Errorf("released, nothing of the use remains: -want, +got:\n%s", diff)
	}
	if taken[0].State != v1alpha1.ClaimPending {
		t.Error("input modified")
	}
	for _, unknown := range []string{"", "nope"} {
		if diff := cmp.Diff(taken, taken.Set(unknown, v1alpha1.ClaimUsed, later)); diff != "" {
			t.Errorf("an unknown id %q changes something:\n%s", unknown, diff)
		}
	}
}

func TestForget(t *testing.T) {
	e := entry(t, `[{"kind":"Deployment","name":"web","digest":"d1"}]`)
	of := func(state v1alpha1.ClaimState, digest string) v1alpha1.Claim {
		return v1alpha1.Claim{Content: e.Content, State: state, Digest: digest}
	}
	cases := map[string]struct {
		reason  string
		claim   v1alpha1.Claim
		written []Entry
		want    int
	}{
		"Used":   {reason: "a person may approve the same difference another time", claim: of(v1alpha1.ClaimUsed, "d1")},
		"Pruned": {reason: "as above", claim: of(v1alpha1.ClaimPruned, "d1")},
		"StillWritten": {reason: "what GitOps keeps writing stays spent", claim: of(v1alpha1.ClaimUsed, "d1"), written: []Entry{e},
			want: 1},
		"Other":   {reason: "another difference", claim: of(v1alpha1.ClaimUsed, "d2"), want: 1},
		"Pending": {reason: "a use under way is never forgotten", claim: of(v1alpha1.ClaimPending, "d1"), want: 1},
		"Open":    {reason: "nor is one that was not used", claim: of(v1alpha1.ClaimOpen, "d1"), want: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := Claims{tc.claim, {Content: "x", State: v1alpha1.ClaimUsed, Digest: "y"}}
			before := slices.Clone(in)
			if got := len(in.Forget("d1", tc.written)) - 1; got != tc.want {
				t.Errorf("%s: want %d left, got %d", tc.reason, tc.want, got)
			}
			if diff := cmp.Diff(before, in); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
		})
	}
}

// Bounded growth: however many approvals were used, no more than maxClaims are
// remembered, and none that is open or pending is ever dropped.
func TestClaimsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Claims
		live := map[string]bool{}
		for i := range rapid.IntRange(0, 200).Draw(t, "approvals") {
			e := Entry{Content: fmt.Sprint(i)}
			var claim v1alpha1.Claim
			c, claim = c.Take(Match{Entry: e}, use(), now)
			state := rapid.SampledFrom([]v1alpha1.ClaimState{v1alpha1.ClaimOpen, v1alpha1.ClaimPending, v1alpha1.ClaimUsed, v1alpha1.ClaimUsed,
				v1alpha1.ClaimPruned}).Draw(t, "state")
			c = c.Set(claim.ID, state, now)
			live[e.Content] = state == v1alpha1.ClaimOpen || state == v1alpha1.ClaimPending
		}
		spent := 0
		for _, e := range c {
			if !live[e.Content] {
				spent++
			}
			delete(live, e.Content)
		}
		if spent > maxClaims+1 {
			t.Fatalf("%d spent approvals remembered", spent)
		}
		for content, l := range live {
			if l {
				t.Fatalf("live claim %s dropped", content)
			}
		}
	})
}
