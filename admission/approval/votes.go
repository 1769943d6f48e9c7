package approval

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Ballot identifies the user of a write that leaves approvals. nil casts no votes.
type Ballot struct {
	// Vote is what an approval that this write adds counts as: the vote of the user of the request.
	Vote v1alpha1.Vote
	// Rules: there are ApprovalRules, so that several users may approve the same.
	Rules bool
	// Stored are the annotations before the write: approvals in them are no vote of this user.
	Stored map[string]string
	// Author reports whether the user requested the change that an id approves. A nil Author is false for every id.
	Author func(id string) bool

	stored *Set
}

// extraOnBehalfOf is the extra of a user in which an authenticator declares for whom it acts: a
// machine that acts for another user is no person (KR-14-06).
const extraOnBehalfOf = v1alpha1.AnnotationPrefix + "on-behalf-of"

// Voter is the user of a request, as the API server authenticated it.
type Voter struct {
	Name    string
	Machine bool
	Groups  []string
	Extra   map[string][]string
}

// Vote returns the vote of the user, made via a field manager. named are the groups that ApprovalRules name: others
// are not stored.
func (u Voter) Vote(via string, named sets.Set[string], at time.Time) v1alpha1.Vote {
	vote := v1alpha1.Vote{User: u.Name, Machine: u.Machine, At: Stamp(at), Via: via}
	if of := u.Extra[extraOnBehalfOf]; len(of) > 0 {
		vote.OnBehalfOf = annotation.Cut(of[0], v1alpha1.MaxCauseName)
	}
	for _, g := range u.Groups {
		if named.Has(g) {
			vote.Groups = append(vote.Groups, g)
		}
	}
	slices.Sort(vote.Groups)
	return vote
}

// Refused returns the reason why a write must be refused that adds approvals, and what to do next; "" where it need not be.
// Votes of others are never dropped for new ones, and votes under ids by which no difference is known take no room of those by
// which one is (KR-14-02). An id of two differences approves neither (KR-13-68). known is that of Admit.
func (b *Ballot) Refused(annotations map[string]string, known Lookup) (why, next string) {
	set, open, adds := Parse(annotations), map[bool]int{}, map[bool]bool{}
	for _, c := range set.Claims {
		if c.Votes && c.State == v1alpha1.ClaimOpen {
			open[known.is(c.Digest)]++
		}
	}
	for _, e := range set.Approvals {
		if e.Digest == "" || !b.adds(e) {
			continue
		}
		c := v1alpha1.Claim{}
		if had := set.Claims.Of(e.Content); had != nil {
			c = *had
		}
		if why := known.ambiguous(e.Digest, c.Bound); why != "" {
			return why, "To approve one of them, write its digest in an entry of " + v1alpha1.AnnotationKeyApprovals + "."
		}
		switch is, stores := known.is(e.Digest), b.stores(e); {
		case stores && (!c.Votes || c.State == v1alpha1.ClaimPruned && !b.Vote.Machine):
			open[is]++
			adds[is] = true
		case stores && len(c.By) >= v1alpha1.MaxVotes:
			return fmt.Sprintf("%d users approved difference %s already", len(c.By), e.Digest), nextVotes
		}
	}
	return full(open, adds)
}

// full returns the reason why there is no room for votes, and what to do next, by how many differences wait for votes, and for which this
// write adds one: those that are known, and others.
func full(open map[bool]int, adds map[bool]bool) (why, next string) {
	switch {
	case adds[true] && open[true] > v1alpha1.MaxVoted:
		return fmt.Sprintf("votes for %d other differences wait on it", v1alpha1.MaxVoted), nextVotes
	case adds[false] && open[false] > v1alpha1.MaxVoted:
		return fmt.Sprintf("it has votes for %d differences that were neither refused nor reported", v1alpha1.MaxVoted),
			"Approve the difference once a refusal or a Drift names it. " + nextVotes
	}
	return "", ""
}

// nextVotes is what to do where there is no room for a vote.
const nextVotes = "The value withdraw takes your own vote back; the next intent removes all that are not used."

// stores reports whether the votes for an approval are stored. Those for an entry of the list are only where a person adds it: the list
// is what GitOps writes, and would write again.
func (b *Ballot) stores(e Entry) bool {
	return b.Rules && e.Digest != "" && e.Mode != v1alpha1.ApprovalAlways && (v1alpha1.IsApprove(e.Key) || !b.Vote.Machine && b.adds(e))
}

// adds reports whether the write adds an approval.
func (b *Ballot) adds(e Entry) bool {
	if b == nil || e.Key == "" {
		return false // no request, or stored in the claims alone
	}
	if b.stored == nil {
		set := Parse(b.Stored)
		b.stored = &set
	}
	same := func(was Entry) bool { return was.Key == e.Key && was.Content == e.Content && was.Value == e.Value }
	return !slices.ContainsFunc(b.stored.Approvals, same) && !slices.ContainsFunc(b.stored.Withdrawn, same)
}

// collecting reports whether votes for an approval are added to its claim. They are while it is not used, and while
// it keeps a gate open: that may need more votes than opened it (KR-14-62).
func collecting(c v1alpha1.Claim) bool {
	return c.State == v1alpha1.ClaimOpen || c.State == v1alpha1.ClaimPending && c.Relation == v1alpha1.RelationExternal
}

// gives reports whether the write gives an approval again that no longer counts. A person so approves a difference that occurs again, after its
// approval was used or has become outdated, one that was not reviewed when it was approved (KR-13-69), and one for which votes were cast before
// the intent that do not count (KR-14-64), also where it is not known: its Drift may just have been resolved. A machine that writes the same
// approval again may do so for ever, and approves nothing by it (KR-05-35). oldest is the generation before which an approval is stale.
func (b *Ballot) gives(e Entry, c v1alpha1.Claim, known Lookup, oldest, intent int64) bool {
	if b == nil || b.Vote.User == "" || b.Vote.Machine || !v1alpha1.IsApprove(e.Key) || !b.adds(e) {
		return false
	}
	return c.Spent() && known.is(e.Digest) || waited(c) && (c.Generation < oldest || c.Generation < intent && known.external(e.Digest))
}

// waited reports whether a claim has votes that wait, or did when it was removed.
func waited(c v1alpha1.Claim) bool {
	return c.Votes && (c.State == v1alpha1.ClaimOpen || c.State == v1alpha1.ClaimPruned)
}

// cast adds the vote of the write to the claim of an approval that is not used: one of each user (KR-14-01). The vote
// of a machine that repeats it is as old as the first, so that the object does not change.
func (b *Ballot) cast(e Entry, c v1alpha1.Claim) v1alpha1.Claim {
	if b == nil || !collecting(c) {
		return c
	}
	if b.stores(e) {
		c.Votes, c.Mode, c.Expiry = true, e.Mode, e.Expiry
	}
	if b.Vote.User == "" || !b.adds(e) || b.repeats(e, c) {
		return c
	}
	vote := b.Vote
	vote.BreakGlass, vote.Author = e.BreakGlass, b.Author != nil && b.Author(e.Digest)
	c.By = slices.DeleteFunc(slices.Clone(c.By), func(v v1alpha1.Vote) bool { return v.User == vote.User })
	if len(c.By) < v1alpha1.MaxVotes {
		c.By = append(c.By, vote)
	}
	return c
}

// repeats reports whether a machine adds a vote that is stored.
func (b *Ballot) repeats(e Entry, c v1alpha1.Claim) bool {
	return b.Vote.Machine && slices.ContainsFunc(c.By, func(v v1alpha1.Vote) bool { return v.User == b.Vote.User && v.BreakGlass == e.BreakGlass })
}

// marks returns the edits of the annotations by which the write votes, by their keys. The value gets a mark, so that the same value is a
// change when the next user writes it before the annotation is removed (KR-14-02). The vote that a machine repeats is
// removed at once. Another mutating webhook may let the same write be reviewed again: a mark that is new in it stays.
func (b *Ballot) marks(set Set, claims Claims, now time.Time) map[string]*string {
	edits := map[string]*string{}
	if b == nil || b.Vote.User == "" {
		return edits
	}
	for _, e := range slices.Concat(set.Approvals, set.Withdrawn) {
		if !v1alpha1.IsApprove(e.Key) || !b.adds(e) || e.Mode != ValueWithdraw && !b.stores(e) {
			continue
		}
		before, after := set.Claims.Of(e.Content), claims.Of(e.Content)
		switch text, marked := cutMark(e.Value); {
		case before != nil && before.Votes && b.repeats(e, *before):
			edits[e.Key] = nil
		case marked, e.Mode != ValueWithdraw && (after == nil || !after.Votes):
		default:
			value := text + markOf(b.Vote.User, now)
			edits[e.Key] = &value
		}
	}
	return edits
}

// withdraw removes the vote of the user who makes the write; a vote of another user stays (KR-14-07).
func (b *Ballot) withdraw(e Entry, claims Claims) Claims {
	if b == nil || !b.adds(e) {
		return claims
	}
	out := make(Claims, 0, len(claims))
	for _, c := range claims {
		if c.State == v1alpha1.ClaimOpen && c.Votes && c.Digest == e.Digest {
			c.By = slices.DeleteFunc(slices.Clone(c.By), func(v v1alpha1.Vote) bool { return v.User == b.Vote.User })
			if len(c.By) == 0 {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// Give adds an approval of a difference with votes that were cast elsewhere, which the claims alone store (KR-14-56).
// The approval must have a digest. One that was given before is not given again, also if it was used since. refused
// is the reason why there is no room for it; "" where there is.
func (c Claims) Give(a v1alpha1.Approval, votes []v1alpha1.Vote, generation int64, now time.Time) (after Claims, refused string) {
	if c.Given(a) != nil {
		return c, ""
	}
	open := 0
	for _, e := range c {
		if e.Votes && e.State == v1alpha1.ClaimOpen {
			open++
		}
	}
	if open >= v1alpha1.MaxVoted {
		return c, fmt.Sprintf("votes for %d other differences wait on it", open)
	}
	return c.put(v1alpha1.Claim{Content: given(a), State: v1alpha1.ClaimOpen, Generation: generation, At: Stamp(now), Digest: a.Digest,
		Reason: annotation.Cut(a.Reason, v1alpha1.MaxCauseName), Mode: v1alpha1.ApprovalOnce, Votes: true, By: votes[:min(len(votes), v1alpha1.MaxVotes)]}), ""
}

// Given returns the claim of an approval that Give gave; nil where Give did not give it, or its record has been
// dropped.
func (c Claims) Given(a v1alpha1.Approval) *v1alpha1.Claim { return c.Of(given(a)) }

// given returns the content hash of an approval that Give gives.
func given(a v1alpha1.Approval) string {
	a.Mode, a.Relation = v1alpha1.ApprovalOnce, v1alpha1.RelationControllerChild
	return content(a, nil)
}

// voted returns the approvals that the claims alone store.
func (c Claims) voted(written []Entry) []Entry {
	var out []Entry
	for _, e := range c {
		if e.Votes && !e.Spent() &&
			!slices.ContainsFunc(written, func(w Entry) bool { return w.Content == e.Content }) {
			out = append(out, Entry{Content: e.Content,
				Approval: v1alpha1.Approval{Mode: e.Mode, Digest: e.Digest, Expiry: e.Expiry, Reason: e.Reason}})
		}
	}
	return out
}

// Counted returns the edits that remove the annotations whose votes are stored, and those that withdrew a vote: the
// same annotation by the next user is a change again (KR-14-02).
func Counted(annotations map[string]string) map[string]*string {
	set := Parse(annotations)
	return Remove(annotations, func(e Entry) bool {
		c := set.Claims.Of(e.Content)
		return e.Mode == ValueWithdraw || c != nil && c.Votes
	})
}

// A mark ends the value of an annotation whose vote is stored. It differs from one write to the next, and is no part of the approval.
var mark = regexp.MustCompile(` \[counted [0-9a-f]{8}\]$`)

// markOf returns the mark of a vote by a user.
func markOf(user string, now time.Time) string {
	return " [counted " + annotation.Digest([]any{user, now.UnixNano()}, 8) + "]"
}

// cutMark returns a value without its mark and the space around it, and whether it had a mark.
func cutMark(value string) (text string, marked bool) {
	if strings.HasSuffix(value, "]") {
		if at := mark.FindStringIndex(value); at != nil {
			return strings.TrimSpace(value[:at[0]]), true
		}
	}
	return strings.TrimSpace(value), false
}
