package approval

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Query is what approvals and rejections match: a difference of a
// child.
type Query struct {
	APIVersion, Kind, Name string
	// Resource is the composition resource name; empty where the child has no such name.
	Resource string
	Relation v1alpha1.Relation
	// Verbs wanted, for RelationExternal: all must be approved.
	Verbs []v1alpha1.Verb
	// Means returns the Verbs that a verb of an approval means in the child's system; nil where each verb means itself.
	// Default are those of an approval without verbs; nil for Update (KR-08-49).
	Means   func(verb string) []v1alpha1.Verb
	Default []v1alpha1.Verb
	// Named: "*" is not one of these verbs, unless the approval has the digest. Of a
	// managed resource it is what a difference needs, and never Delete (KR-08-05).
	Named bool
	// Exact: only approvals with a digest count, since the managed resource represents
	// another external resource than before (KR-13-18).
	Exact bool
	// Digests the difference goes by: its own id, and for the deletion of many
	// at once that of the whole.
	Digests []change.Digest
	// Intent generation of the parent.
	Intent int64
	// Use identifies this use of a once approval.
	Use Use
	// Lacks is what the votes for the difference lack by the ApprovalRules that match it, as a
	// clause; "" for nothing. It is called with the votes of an approval of that difference, and
	// with none for other approvals, which have no votes for it. waits: nothing is missing but
	// a window that is open. nil where no rule matches.
	Lacks func(votes []v1alpha1.Vote) (lacking string, waits bool)
	// Counted returns those of the votes by which these rules are met. nil where all are.
	Counted func(votes []v1alpha1.Vote) []v1alpha1.Vote
}

// Match is an approval that fits, with the claim that must be written first.
type Match struct {
	Entry Entry
	// Claimed is the claim of an earlier attempt at the same use, nil where
	// none was made.
	Claimed *v1alpha1.Claim
	// By are the users who approved; nil where that is unknown.
	By []v1alpha1.Vote
}

// NeedsClaim reports whether the approval must be claimed before the change may
// pass.
func (m Match) NeedsClaim() bool {
	return m.Entry.Mode == v1alpha1.ApprovalOnce && m.Claimed == nil
}

// Approved returns the first approval that fits and is not used up: lasting
// ones first, so that no once is spent where none is needed, then the one that
// the same use has claimed already, so that a retry spends no second one. All
// entries are tried.
func (s Set) Approved(q Query) (Match, bool) {
	var fresh *Match
	for _, once := range []bool{false, true} {
		for _, e := range s.Approvals {
			if (e.Mode == v1alpha1.ApprovalOnce) != once || !fits(s, e, q) || !s.valid(e, q) || s.lacks(e, q) != "" {
				continue
			}
			if !once {
				return Match{Entry: e, By: s.by(e, q)}, true
			}
			claimed, free := s.Claims.Use(e.Content, q.Use)
			switch {
			case claimed != nil:
				return Match{Entry: e, Claimed: claimed, By: s.by(e, q)}, true
			case free && fresh == nil:
				fresh = &Match{Entry: e, By: s.by(e, q)}
			}
		}
	}
	if fresh == nil {
		return Match{}, false
	}
	return *fresh, true
}

// Exact reports whether an approval is about one difference, by its digest.
func (s Set) Exact() bool {
	return slices.ContainsFunc(s.Approvals, func(e Entry) bool { return e.Digest != "" })
}

// Spent returns an approval that would fit, were it not used up or stale.
func (s Set) Spent(q Query) (Entry, bool) {
	return first(s.Approvals, func(e Entry) bool { return fits(s, e, q) })
}

// WhySpent returns what is the matter with an approval that Spent returned, as the end of a clause about it.
func (s Set) WhySpent(e Entry) string {
	if c := s.Claims.Of(e.Content); c != nil && c.State == v1alpha1.ClaimUnreviewed {
		return "was written while no webhook reviewed the object, and is ignored until it is given again"
	}
	return "is used up or out of date"
}

// lacks returns a clause about the votes that an approval lacks (KR-14-03).
func (s Set) lacks(e Entry, q Query) string {
	switch {
	case q.Lacks == nil:
		return ""
	case e.Digest == "" || e.Mode == v1alpha1.ApprovalAlways:
		lacking, _ := q.Lacks(nil)
		return lacking
	}
	lacking, _ := q.Lacks(s.votes(q))
	return lacking
}

// votes returns the votes for a difference: one of each user, of all approvals of exactly that difference which are
// not used, in the order in which these were given first.
func (s Set) votes(q Query) []v1alpha1.Vote {
	var out []v1alpha1.Vote
	for _, c := range s.Claims {
		i := slices.IndexFunc(s.Approvals, func(e Entry) bool { return e.Content == c.Content })
		if i < 0 {
			continue
		}
		e := s.Approvals[i]
		if c.Spent() || e.Digest == "" || e.Mode == v1alpha1.ApprovalAlways || !fits(s, e, q) || !s.valid(e, q) {
			continue
		}
		for _, v := range c.By {
			v.Reason = c.Reason
			out = append(slices.DeleteFunc(out, func(o v1alpha1.Vote) bool { return o.User == v.User }), v)
		}
	}
	return out
}

// VotesFor returns the votes for a difference of which no more is known than its digest.
func (s Set) VotesFor(digest change.Digest) []v1alpha1.Vote {
	return s.votes(Query{Digests: []change.Digest{digest}})
}

// Tally returns the votes for a difference, and a clause about the votes that are missing; both are empty where no
// rule matches it.
func (s Set) Tally(q Query) (votes []v1alpha1.Vote, lacking string) {
	if q.Lacks == nil {
		return nil, ""
	}
	votes = s.votes(q)
	lacking, _ = q.Lacks(votes)
	return votes, lacking
}

// Waits reports whether the votes for a difference lack nothing but a window that is open.
func (s Set) Waits(q Query) bool {
	if q.Lacks == nil {
		return false
	}
	_, waits := q.Lacks(s.votes(q))
	return waits
}

// Lacking returns a clause about the votes that are missing for a difference, as in Tally.
func (s Set) Lacking(q Query) string {
	_, lacking := s.Tally(q)
	return lacking
}

// By returns the votes of the users who gave the approval; nil where they are unknown.
func (s Set) By(e Entry) []v1alpha1.Vote {
	if c := s.Claims.Of(e.Content); c != nil {
		return c.By
	}
	return nil
}

// by returns the votes of the users who approved the difference by an entry. Where votes are counted, it includes
// those by other entries, and leaves out those that do not count (KR-14-10).
func (s Set) by(e Entry, q Query) []v1alpha1.Vote {
	switch {
	case q.Lacks == nil:
		return s.By(e)
	case q.Counted == nil:
		return s.votes(q)
	}
	return q.Counted(s.votes(q))
}

// UsedFor reports whether an approval of a difference was used up, and is not written on the parent any more. An
// occurrence of the difference is another one then, and Claims.Forget makes it possible to approve it.
func (s Set) UsedFor(digest string) bool {
	return len(s.Claims.Forget(digest, s.Approvals)) < len(s.Claims)
}

// Value returns the value of approve-<id> that approves a difference now, where it is not approved: the mode, and, where an approval of an
// earlier occurrence or from before the intent generation is written or recorded, a reason which makes it another approval (KR-05-39). Votes
// from before the intent are replaced by the same value (KR-14-64).
func (s Set) Value(digest string, mode v1alpha1.ApprovalMode, intent int64) string {
	value := string(mode)
	for n := range len(s.Claims) {
		c := s.Claims.Of(content(v1alpha1.Approval{Digest: digest, Mode: mode, Reason: reasonOf(value)}, nil))
		switch {
		case c == nil, !c.Spent() && !outdated(*c, intent) && (c.State != v1alpha1.ClaimPending || c.Relation == v1alpha1.RelationExternal):
			return value
		case c.State == v1alpha1.ClaimUnreviewed && n == 0:
			value = string(mode) + GivenAgain
		case c.State == v1alpha1.ClaimUnreviewed:
			value = fmt.Sprintf("%s%s, %d", mode, GivenAgain, n+1)
		default:
			value = string(mode) + ": again, after " + cmp.Or(c.ID, "generation "+strconv.FormatInt(c.Generation, 10))
		}
	}
	return value
}

// outdated reports whether an approval was given before the intent, and waits.
func outdated(c v1alpha1.Claim, intent int64) bool {
	return c.State == v1alpha1.ClaimOpen && !c.Votes && c.Generation > 0 && c.Generation < intent
}

// GivenAgain follows the mode in the value of an approval that is given again since it was not reviewed when it was written (KR-13-69).
const GivenAgain = ": given again"

// Knows reports whether a claim records an approval that is the value of approve-<id>.
func (s Set) Knows(key, value string) bool {
	e, err := approve(key, value)
	return err == nil && s.Claims.Of(e.Content) != nil
}

// reasonOf returns the reason in a value of approve-<id>; "" for none.
func reasonOf(value string) string {
	_, reason, _ := strings.Cut(value, ":")
	return strings.TrimSpace(reason)
}

// valid reports whether an entry still holds for the parent's intent (KR-05-32). An
// entry without a generation holds for the one at which it was admitted, which its
// claim stores.
func (s Set) valid(e Entry, q Query) bool {
	if e.Mode == v1alpha1.ApprovalAlways {
		return true
	}
	c := s.Claims.Of(e.Content)
	switch {
	case c != nil && (c.State == v1alpha1.ClaimPruned || c.State == v1alpha1.ClaimUnreviewed):
		return false
	case e.Generation > 0:
		return e.Generation >= q.Intent
	case c != nil && c.Generation > 0:
		return c.Generation >= q.Intent
	}
	return true
}

// fits reports whether an approval is about the child and the difference. A digest
// identifies a difference, so that the child need not be named with it (KR-05-30, KR-05-31).
func fits(s Set, e Entry, q Query) bool {
	a := e.Approval
	if a.Digest != "" && !names(s, e, q.Digests) || a.Digest == "" && q.Exact {
		return false
	}
	if a.Digest != "" && a.Kind == "" {
		return true
	}
	if a.Digest != "" && a.Name == "" && a.Resource == "" {
		a.Name = "*" // the digest identifies it
	}
	if relation(a.Relation) != relation(q.Relation) || !named(a.APIVersion, a.Kind, a.Name, a.Resource, q) {
		return false
	}
	return relation(q.Relation) != v1alpha1.RelationExternal || q.verbs(a.Verbs, !q.Named || a.Digest != "")
}

// names reports whether an entry names one of the digests. An id is about the difference alone that was known under it when the
// approval was given (KR-13-68). A query that knows no more than an id is about that.
func names(s Set, e Entry, digests []change.Digest) bool {
	bound := ""
	if c := s.Claims.Of(e.Content); c != nil {
		bound = c.Bound
	}
	return slices.ContainsFunc(digests, func(d change.Digest) bool {
		return d.Is(e.Digest) && (bound == "" || bound == string(d) || len(d) == change.IDLength)
	})
}

// relation returns a relation with its default; "Child" is the shorthand of policies.
func relation(r v1alpha1.Relation) v1alpha1.Relation {
	if r == "" || r == "Child" {
		return v1alpha1.RelationControllerChild
	}
	return r
}

// verbs reports whether all wanted verbs are approved. all: "*" is each of them.
func (q Query) verbs(approved []v1alpha1.Verb, all bool) bool {
	if all && slices.Contains(approved, v1alpha1.VerbAll) {
		return true
	}
	have := q.meant(approved)
	return !slices.ContainsFunc(q.Verbs, func(v v1alpha1.Verb) bool { return !slices.Contains(have, v) })
}

// meant returns the verbs that the verbs of an approval mean, without "*".
func (q Query) meant(approved []v1alpha1.Verb) []v1alpha1.Verb {
	switch {
	case len(approved) == 0 && q.Default != nil:
		return q.Default
	case len(approved) == 0:
		return []v1alpha1.Verb{v1alpha1.VerbUpdate}
	case q.Means == nil:
		return approved
	}
	var out []v1alpha1.Verb
	for _, v := range approved {
		if v != v1alpha1.VerbAll {
			out = append(out, q.Means(string(v))...)
		}
	}
	return out
}

// named reports whether an entry names the child. A composition resource name takes precedence over the name, which
// is generated for most composed resources.
func named(apiVersion, kind, name, resource string, q Query) bool {
	switch {
	case apiVersion != "" && apiVersion != "*" && apiVersion != q.APIVersion:
		return false
	case kind != "*" && kind != q.Kind:
		return false
	case resource != "":
		return resource == "*" || resource == q.Resource
	}
	return name == "*" || (name != "" && name == q.Name)
}

// Rejected returns the first rejection that is about the child (KR-05-38).
func (s Set) Rejected(q Query) (v1alpha1.Rejection, bool) {
	return first(s.Rejections, func(r v1alpha1.Rejection) bool {
		return named(r.APIVersion, r.Kind, r.Name, r.Resource, q) && (r.Generation == 0 || r.Generation >= q.Intent)
	})
}

// first returns the first element of a list that is wanted; the zero value and false where no element is.
func first[T any](list []T, wanted func(T) bool) (found T, ok bool) {
	if i := slices.IndexFunc(list, wanted); i >= 0 {
		return list[i], true
	}
	return found, false
}

// Snoozed reports whether notifications are silenced at a time.
func (s Set) Snoozed(now time.Time) bool { return s.Snooze != nil && now.Before(s.Snooze.Expiry.Time) }
