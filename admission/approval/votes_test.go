package approval

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const difference = "0123456789abcdef"

// parentObject on which users vote, with the API server's and the settler's part in it.
type parentObject struct {
	annotations        annotations
	generation, intent int64
	at                 time.Time
	held               Lookup
}

// write as a user: the annotations that are set, "" for removed ones. What the object refuses is returned.
func (p *parentObject) write(user string, person bool, set map[string]string) (refused string) {
	after := annotations{}
	for k, v := range p.annotations {
		after[k] = v
	}
	for k, v := range set {
		if after[k] = v; v == "" {
			delete(after, k)
		}
	}
	after[keyClaims] = p.annotations[keyClaims] // no client writes it
	p.at = p.at.Add(time.Millisecond)
	ballot := &Ballot{Vote: v1alpha1.Vote{User: user, Machine: !person, At: Stamp(p.at)}, Rules: true, Stored: p.annotations}
	if why, _ := ballot.Refused(after, p.held); why != "" {
		return why
	}
	once := annotation.Apply(after, Admit(after, p.generation, p.intent, p.at, p.held, ballot))
	// Another mutating webhook changes the object, so that the same request is reviewed again.
	again := maps.Clone(once)
	again[keyClaims] = p.annotations[keyClaims]
	p.annotations = annotation.Apply(again, Admit(again, p.generation, p.intent, p.at, p.held, ballot))
	if diff := cmp.Diff(once, p.annotations); diff != "" {
		return "reviewed again, it is another result: " + diff
	}
	return ""
}

// count the votes as the settler does.
func (p *parentObject) count() {
	p.annotations = annotation.Apply(p.annotations, Counted(p.annotations))
}

// voters of the difference.
func (p *parentObject) voters() []string {
	var out []string
	for _, c := range ParseClaims(p.annotations[keyClaims]) {
		if c.Digest == difference {
			for _, v := range c.By {
				out = append(out, v.User)
			}
		}
	}
	return out
}

func newParent() *parentObject {
	return &parentObject{annotations: annotations{}, generation: 7, intent: 7, at: now}
}

// TestVotes covers KR-14-01, KR-14-02 and KR-14-07.
func TestVotes(t *testing.T) {
	const approve = keyApprove + difference
	for name, tc := range map[string]struct {
		reason string
		play   func(p *parentObject)
		want   []string
	}{
		"Two": {reason: "the same annotation by another user is another vote", want: []string{"anna", "bob"}, play: func(p *parentObject) {
			p.write("anna", true, map[string]string{approve: "once"})
			p.count()
			p.write("bob", true, map[string]string{approve: "once"})
		}},
		"Unchanged": {reason: "an annotation that exists is the vote of who wrote it", want: []string{"anna"}, play: func(p *parentObject) {
			p.write("anna", true, map[string]string{approve: "once"})
			p.write("bob", true, map[string]string{"example.org/a": "b"})
		}},
		"Again": {reason: "one vote of each user", want: []string{"bob", "anna"}, play: func(p *parentObject) {
			for _, u := range []string{"anna", "bob", "anna"} {
				p.write(u, true, map[string]string{approve: "once"})
				p.count()
			}
		}},
		"RemovedByAnother": {reason: "a removed annotation withdraws no vote of another user", want: []string{"anna"}, play: func(p *parentObject) {
			p.write("anna", true, map[string]string{approve: "once"})
			p.write("bob", true, map[string]string{approve: ""})
		}},
		"Withdrawn": {reason: "users withdraw their own votes", want: []string{"bob"}, play: func(p *parentObject) {
			p.write("anna", true, map[string]string{approve: "once"})
			p.count()
			p.write("bob", true, map[string]string{approve: "once"})
			p.count()
			p.write("anna", true, map[string]string{approve: "withdraw"})
		}},
		"WithdrawnByAnother": {reason: "and no other's", want: []string{"anna"}, play: func(p *parentObject) {
			p.write("anna", true, map[string]string{approve: "once"})
			p.count()
			p.write("bob", true, map[string]string{approve: "withdraw"})
		}},
		"InTheList": {reason: "an entry of approvals that names the difference is a vote", want: []string{"anna"}, play: func(p *parentObject) {
			p.write("anna", true, map[string]string{keyApprovals: `[{"digest":"` + difference + `"}]`})
			p.count()
		}},
		"Intent": {reason: "a new intent ends them", play: func(p *parentObject) {
			p.write("anna", true, map[string]string{approve: "once"})
			p.count()
			p.generation, p.intent = 8, 8
			p.write("hans", true, map[string]string{"example.org/size": "2"})
			if c := ParseClaims(p.annotations[keyClaims])[0]; c.State != v1alpha1.ClaimPruned {
				t.Errorf("the claim is %s", c.State)
			}
			p.annotations[keyClaims] = "[]"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParent()
			tc.play(p)
			if diff := cmp.Diff(tc.want, p.voters()); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// The annotation is removed once its vote is counted, that of a machine, too, so that the same annotation by the next user is a change
// (KR-14-02). A machine that writes it for ever, as GitOps does, changes nothing of the object by it.
func TestCounted(t *testing.T) {
	const flux = "system:serviceaccount:flux:flux"
	for user, person := range map[string]bool{"anna": true, flux: false} {
		p := newParent()
		p.write(user, person, map[string]string{keyApprove + difference: "once"})
		p.count()
		if value, stays := p.annotations[keyApprove+difference]; stays {
			t.Errorf("of %s the annotation stays: %s", user, value)
		}
		if diff := cmp.Diff([]string{user}, p.voters()); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
		before := maps.Clone(p.annotations)
		p.at = p.at.Add(time.Minute)
		p.write(user, person, map[string]string{keyApprove + difference: "once"})
		if same := cmp.Equal(before, p.annotations); same == person {
			t.Errorf("written again by %s, the object is the same: %t\n%v", user, same, p.annotations)
		}
	}
	p := newParent()
	p.write(flux, false, map[string]string{keyApprove + difference: "once"})
	p.write("anna", true, map[string]string{keyApprove + difference: "once"})
	if diff := cmp.Diff([]string{flux, "anna"}, p.voters()); diff != "" {
		t.Errorf("a machine's annotation blocks the vote of a person: -want, +got:\n%s", diff)
	}
}

// An annotation of before the first ApprovalRule gives way to votes with the next write of the object, and stays an approval.
func TestCountedFromBefore(t *testing.T) {
	p := newParent()
	p.annotations = admit(t, annotations{keyApprove + difference: "once"}, 7, 7)
	p.write("hans", true, map[string]string{"example.org/a": "b"})
	p.count()
	if value, stays := p.annotations[keyApprove+difference]; stays {
		t.Errorf("the annotation stays: %s", value)
	}
	q := query()
	q.Digests, q.Intent = []change.Digest{difference}, 7
	if _, ok := Parse(p.annotations).Approved(q); !ok || len(p.voters()) > 0 {
		t.Errorf("it approves: %t; with the votes of %v", ok, p.voters())
	}
}

// TestTwoVotersAtOnce: the second user votes before the annotation of the first is removed (KR-14-02).
func TestTwoVotersAtOnce(t *testing.T) {
	for _, value := range []string{"once", "generation", "break-glass: it burns", "once: INC-4711"} {
		p := newParent()
		p.write("anna", true, map[string]string{keyApprove + difference: value})
		p.write("bob", true, map[string]string{keyApprove + difference: value})
		if diff := cmp.Diff([]string{"anna", "bob"}, p.voters()); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", value, diff)
		}
		p.write("anna", true, map[string]string{keyApprove + difference: "withdraw"})
		p.write("bob", true, map[string]string{keyApprove + difference: "withdraw"})
		p.count()
		if len(p.voters()) > 0 || p.annotations[keyApprove+difference] != "" {
			t.Errorf("%s, withdrawn: %v", value, p.annotations)
		}
	}
}

// Stored votes approve as the annotation did, and their use is remembered with who approved (KR-14-10).
func TestApprovedByVotes(t *testing.T) {
	p := newParent()
	p.write("anna", true, map[string]string{keyApprove + difference: "once"})
	p.count()
	q := query()
	q.Digests, q.Intent, q.Use.Digest = []change.Digest{difference}, 7, difference
	given := 0
	q.Lacks = func(votes []v1alpha1.Vote) (string, bool) {
		given = len(votes)
		if given < 2 {
			return "another vote", false
		}
		return "", false
	}
	if _, ok := Parse(p.annotations).Approved(q); ok || given != 1 || Parse(p.annotations).Lacking(q) != "another vote" {
		t.Errorf("one vote of two approves: %t, given %d votes", ok, given)
	}
	p.write("bob", true, map[string]string{keyApprove + difference: "once"})
	p.count()
	set := Parse(p.annotations)
	m, ok := set.Approved(q)
	if !ok || !m.NeedsClaim() {
		t.Fatalf("two votes of two do not approve: %v", p.annotations)
	}
	taken, claim := set.Claims.Take(m, q.Use, now)
	if used := taken.Set(claim.ID, v1alpha1.ClaimUsed, now); len(used[0].By) != 2 {
		t.Errorf("a used claim names who approved: %+v", used[0])
	}
	released := annotations{keyClaims: taken.Set(claim.ID, v1alpha1.ClaimOpen, now).String()}
	if _, ok := Parse(released).Approved(q); !ok {
		t.Errorf("a released claim has its votes still: %v", released)
	}
	spent := annotations{keyClaims: taken.Set(claim.ID, v1alpha1.ClaimUsed, now).String()}
	if _, ok := Parse(spent).Approved(q); ok {
		t.Error("votes are used once")
	}
}

// TestVotesBeforeAnIntent: votes from before the intent for a deletion, or a difference of an external resource, are not added to; those
// about what is held since then are (KR-14-64). Where the Drift of the first refusal is resolved after the second one, nothing is known.
func TestVotesBeforeAnIntent(t *testing.T) {
	known := func(k Known) Lookup { return func(string) (Known, bool) { return k, true } }
	deletion, before := known(Known{Named: true, Since: math.MaxInt64, External: true}), known(Known{Named: true, Since: 6})
	for name, tc := range map[string]struct {
		held, atVote Lookup
		machine      bool
		want         []string
	}{
		"a deletion": {held: deletion, atVote: deletion, want: []string{"bob"}},
		"a deletion, and the function holds more":    {held: known(Known{Named: true, External: true}), atVote: deletion, want: []string{"bob"}},
		"a deletion that is not known":               {want: []string{"bob"}},
		"a deletion that is not known at the vote":   {held: deletion, want: []string{"bob"}},
		"a deletion, by a machine":                   {machine: true, want: []string{"anna"}},
		"the function holds something, or that":      {held: known(Known{}), atVote: known(Known{}), want: []string{"anna", "bob"}},
		"a creation that the function holds":         {held: known(Known{Named: true}), atVote: known(Known{Named: true}), want: []string{"anna", "bob"}},
		"held since before":                          {held: before, atVote: before, want: []string{"anna", "bob"}},
		"held since before, and no more at the vote": {held: before, want: []string{"bob"}},
	} {
		for _, intent := range []string{"by itself", "with the vote"} {
			p := newParent()
			p.held = tc.held
			p.write("anna", true, map[string]string{keyApprove + difference: "once"})
			p.count()
			p.generation, p.intent = 9, 9
			if intent == "by itself" {
				p.write("hans", true, nil)
			}
			p.held = tc.atVote
			require.Empty(t, p.write("bob", !tc.machine, map[string]string{keyApprove + difference: "once"}))
			p.count()
			if diff := cmp.Diff(tc.want, p.voters()); diff != "" {
				t.Errorf("%s, the intent %s: -want, +got:\n%s", name, intent, diff)
			}
		}
	}
}

// TestBreakGlass covers KR-14-09.
func TestBreakGlass(t *testing.T) {
	for value, want := range map[string]string{"break-glass: it burns": "it burns", "break-glass:": "", "break-glass: " + strings.Repeat("x", 600): ""} {
		p := newParent()
		if err := Validate(keyApprove+difference, value); (err == nil) != (want != "") {
			t.Errorf("%.40s: %v", value, err)
			continue
		}
		p.write("anna", true, map[string]string{keyApprove + difference: value})
		got := ""
		for _, c := range ParseClaims(p.annotations[keyClaims]) {
			got = c.By[0].BreakGlass
		}
		if got != want {
			t.Errorf("%.40s: the reason is %q, want %q", value, got, want)
		}
	}
}

// An object has room for votes on 64 differences; none of them is dropped for another.
func TestVotesAreBounded(t *testing.T) {
	p := newParent()
	p.write("anna", true, map[string]string{keyApprove + difference: "once"})
	p.count()
	refused := 0
	for i := range 100 {
		if p.write("mallory", true, map[string]string{keyApprove + fmt.Sprintf("%016x", i): "once"}) != "" {
			refused++
		}
		p.count()
	}
	for i := range 40 {
		p.write(fmt.Sprint("user", i), true, map[string]string{keyApprove + difference: "once"})
		p.count()
	}
	if n := len(ParseClaims(p.annotations[keyClaims])); n != v1alpha1.MaxVoted || refused != 100-v1alpha1.MaxVoted+1 {
		t.Errorf("votes on %d differences are stored, %d were refused", n, refused)
	}
	if got := p.voters(); len(got) != v1alpha1.MaxVotes || got[0] != "anna" {
		t.Errorf("the voters are %v", got)
	}
	p.generation, p.intent, refused = 9, 9, 0
	p.write("hans", true, nil) // removes them
	for i := range 2 * v1alpha1.MaxVoted {
		if p.write("mallory", true, map[string]string{keyApprove + fmt.Sprintf("%016x", (v1alpha1.MaxVoted+i)%(2*v1alpha1.MaxVoted)): "once"}) != "" {
			refused++
		}
		p.count()
	}
	if refused != v1alpha1.MaxVoted {
		t.Errorf("%d votes on differences that were voted on before an intent were refused: there is no more room for them than for others", refused)
	}
	const held = "fedcba9876543210"
	p.held = func(id string) (Known, bool) { return Known{Named: id == held, Since: 7}, id == held }
	if why := p.write("anna", true, map[string]string{keyApprove + held: "once"}); why != "" {
		t.Errorf("votes under ids by which nothing is known take the room of those for what is held: %s", why)
	}
}

// TestApproveAgain: an approval that was used is written again for the next occurrence of the difference (KR-05-35, KR-05-39).
func TestApproveAgain(t *testing.T) {
	const key = keyApprove + difference
	for name, tc := range map[string]struct {
		reason       string
		person, held bool
		value        string
		want         bool
	}{
		"Person":    {reason: "a person means the occurrence that is held", person: true, held: true, value: "once", want: true},
		"GitOps":    {reason: "GitOps writes the same for ever", held: true, value: "once"},
		"NotHeld":   {reason: "what is not held does not occur again", person: true, value: "once"},
		"Suggested": {reason: "the suggested command is another approval, also of a machine", value: "suggested", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			used := Claims{{Content: content(v1alpha1.Approval{Digest: difference, Mode: v1alpha1.ApprovalOnce}, nil), ID: "0123456789ab",
				State: v1alpha1.ClaimUsed, Digest: difference, Generation: 7}}
			p := newParent()
			p.annotations[keyClaims] = used.String()
			p.held = func(string) (Known, bool) { return Known{Named: tc.held, Since: 7}, tc.held }
			if tc.value == "suggested" {
				if tc.value = Parse(p.annotations).Value(difference, v1alpha1.ApprovalOnce, 7); tc.value != "once: again, after 0123456789ab" {
					t.Errorf("suggested: %s", tc.value)
				}
			}
			p.write("anna", tc.person, map[string]string{key: tc.value})
			q := query()
			q.Digests, q.Intent = []change.Digest{difference}, 7
			if _, ok := Parse(p.annotations).Approved(q); ok != tc.want {
				t.Errorf("%s: it approves: %t, %v", tc.reason, ok, p.annotations)
			}
		})
	}
	first := content(v1alpha1.Approval{Digest: difference, Mode: v1alpha1.ApprovalOnce}, nil)
	pending := Claims{{Content: first, ID: "0123456789ab", State: v1alpha1.ClaimPending}}
	for _, tc := range []struct {
		claims Claims
		want   string
	}{
		{nil, "once"},
		{Claims{{Content: pending[0].Content, State: v1alpha1.ClaimOpen}}, "once"},
		{Claims{{Content: pending[0].Content, State: v1alpha1.ClaimOpen, Generation: 7}}, "once"},
		{Claims{{Content: pending[0].Content, State: v1alpha1.ClaimOpen, Generation: 5}}, "once: again, after generation 5"},
		{Claims{{Content: pending[0].Content, State: v1alpha1.ClaimOpen, Generation: 5, Votes: true}}, "once"},
		{pending, "once: again, after 0123456789ab"},
		{Claims{{Content: pending[0].Content, State: v1alpha1.ClaimPending, Relation: v1alpha1.RelationExternal}}, "once"},
		{Claims{{Content: pending[0].Content, State: v1alpha1.ClaimPruned, Generation: 3}}, "once: again, after generation 3"},
		{Claims{{Content: "of another", State: v1alpha1.ClaimUsed, Digest: difference}}, "once"},
		{append(pending, v1alpha1.Claim{State: v1alpha1.ClaimUsed, ID: "fff",
			Content: content(v1alpha1.Approval{Digest: difference, Mode: v1alpha1.ApprovalOnce, Reason: "again, after 0123456789ab"}, nil)}), "once: again, after fff"},
	} {
		if got := (Set{Claims: tc.claims}).Value(difference, v1alpha1.ApprovalOnce, 7); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.claims, got, tc.want)
		}
	}
}

// In whatever order users vote, withdraw, remove and are counted: each has at most one vote, whose last word was to vote.
func TestVotesOfEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, want := newParent(), map[string]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "writes") {
			user := rapid.SampledFrom([]string{"anna", "bob", "carl"}).Draw(t, "user")
			value := rapid.SampledFrom([]string{"once", "withdraw", "", "break-glass: now"}).Draw(t, "value")
			before := p.annotations[keyApprove+difference]
			p.write(user, true, map[string]string{keyApprove + difference: value})
			if before != value && value != "" { // else nothing is new
				want[user] = value != "withdraw"
			}
			if rapid.Bool().Draw(t, "counted") {
				p.count()
			}
		}
		got := map[string]bool{}
		for _, u := range p.voters() {
			if got[u] {
				t.Fatalf("%s has two votes: %v", u, p.voters())
			}
			got[u] = true
		}
		for u, is := range want {
			if got[u] != is {
				t.Fatalf("vote of %s: %t, want %t: %s", u, got[u], is, p.annotations[keyClaims])
			}
		}
	})
}
