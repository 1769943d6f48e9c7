package approval

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestApprovers covers KR-14-10: who approved is shown with a trace and in explain.
func TestApprovers(t *testing.T) {
	for want, votes := range map[string][]v1alpha1.Vote{
		"":                          nil,
		", by anna":                 {{User: "anna"}},
		", by anna and bob":         {{User: "anna"}, {User: "bob"}},
		", by bot on behalf of bob": {{User: "bot", OnBehalfOf: "bob"}},
		", by eve (break glass: the database is down)": {{User: "eve", BreakGlass: "the database is down"}},
	} {
		if got := VotesText(votes); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := ByText(&v1alpha1.HopApproval{By: votes}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := ByText(&v1alpha1.HopApproval{Policy: "ApprovalPolicy/shop/a"}); got != ", by ApprovalPolicy/shop/a" {
		t.Errorf("%q", got)
	}
	if got := ByText(nil); got != "" {
		t.Errorf("%q", got)
	}
}

// TestUsedFor covers KR-14-63: the use names who approved, among all claims of the difference, and leaves out whose vote did not count.
func TestUsedFor(t *testing.T) {
	vote := func(user, reason string) v1alpha1.Vote {
		return v1alpha1.Vote{User: user, At: Stamp(now), Groups: []string{"dba"}, Via: "kubectl-annotate", Reason: reason}
	}
	named := func(user, reason string) v1alpha1.Vote {
		v := vote(user, reason)
		v.Groups = nil
		return v
	}
	claim := v1alpha1.Claim{Content: "c", State: v1alpha1.ClaimOpen, Digest: "d1", Votes: true, Mode: v1alpha1.ApprovalOnce, Reason: "why",
		By: []v1alpha1.Vote{vote("anna", ""), vote("mallory", "")}}
	entry := Entry{Content: "c", Approval: v1alpha1.Approval{Mode: v1alpha1.ApprovalOnce, Digest: "d1", Reason: "why"}}
	for name, tc := range map[string]struct {
		reason  string
		counted []v1alpha1.Vote
		state   v1alpha1.ClaimState
		id      string
		since   time.Duration
		pending bool
		want    []v1alpha1.Vote
		none    bool
		stored  bool
	}{
		"All": {reason: "nothing is stored twice", counted: []v1alpha1.Vote{vote("anna", "why"), vote("mallory", "why")},
			want: []v1alpha1.Vote{named("anna", ""), named("mallory", "")}},
		"Unknown": {reason: "an approval without votes of its own", want: []v1alpha1.Vote{named("anna", ""), named("mallory", "")}},
		"Counted": {reason: "the vote of mallory did not count", counted: []v1alpha1.Vote{vote("anna", "why")},
			want: []v1alpha1.Vote{named("anna", "")}, stored: true},
		"OtherClaim": {reason: "bob gave another reason", counted: []v1alpha1.Vote{vote("anna", "why"), vote("bob", "other")},
			want: []v1alpha1.Vote{named("anna", "why"), named("bob", "other")}, stored: true},
		"Pending": {reason: "it is not known to be stored", state: v1alpha1.ClaimPending, none: true},
		"PendingCounts": {reason: "where that is known otherwise", state: v1alpha1.ClaimPending, pending: true,
			want: []v1alpha1.Vote{named("anna", ""), named("mallory", "")}},
		"OtherDifference": {reason: "by its id", id: "d2", none: true},
		"Earlier":         {reason: "of an earlier occurrence", since: time.Second, none: true},
		"Released":        {reason: "nothing was changed", state: v1alpha1.ClaimOpen, counted: []v1alpha1.Vote{vote("anna", "why")}, pending: true, none: true},
	} {
		t.Run(name, func(t *testing.T) {
			u := use()
			claims, taken := Claims{claim}.Take(Match{Entry: entry, By: tc.counted}, u, now)
			if tc.state == "" {
				tc.state = v1alpha1.ClaimUsed
			}
			if tc.state != v1alpha1.ClaimPending {
				claims = claims.Set(taken.ID, tc.state, now)
			}
			if tc.id == "" {
				tc.id = "d1"
			}
			if got := claims[0].Counted != nil; got != tc.stored {
				t.Errorf("%s: the votes are stored beside those of the claim: %t", tc.reason, got)
			}
			got := ParseClaims(claims.String()).UsedFor(tc.id, Stamp(now).Add(tc.since), tc.pending)
			if tc.none {
				if got != nil {
					t.Errorf("%s: %+v", tc.reason, got)
				}
				return
			}
			want := &v1alpha1.HopApproval{Claim: taken.ID, Content: "c", Mode: v1alpha1.ApprovalOnce, Digest: "d1", Reason: "why", By: tc.want}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestBrokenGlassOf covers KR-14-43: the last vote of this kind among those that counted.
func TestBrokenGlassOf(t *testing.T) {
	if BrokenGlass(nil) != nil || BrokenGlass(&v1alpha1.HopApproval{By: []v1alpha1.Vote{{User: "anna"}}}) != nil {
		t.Error("no vote broke the glass")
	}
	got := BrokenGlass(&v1alpha1.HopApproval{By: []v1alpha1.Vote{{User: "anna", BreakGlass: "x"}, {User: "bob"}, {User: "alice", BreakGlass: "it burns"}}})
	if got == nil || got.User != "alice" {
		t.Errorf("got %+v", got)
	}
}
