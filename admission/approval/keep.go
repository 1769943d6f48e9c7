package approval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Admit updates the claims of a parent to the approvals that a write to it leaves, and prunes those that are stale
// (KR-05-35) or expired (KR-14-30). An entry that is spent already and is written again (by GitOps, which keeps
// writing it) stays where it is, without effect: Kausality and GitOps would otherwise undo each other's writes.
//
// annotations are those the write would store, generation the parent's after the write, intent its intent generation
// after the write. edits are the annotations to change on top, nil values removing them; annotations is not modified.
//
// known looks up differences: an approval of exactly one that is held is not stale before that (KR-05-58), and a person who writes it
// again, after it was used, approves it again (KR-05-35). What is known under an id is what it is about (KR-13-68).
//
// ballot identifies the user who writes; nil where the write is no request, so that no user votes by it.
func Admit(annotations map[string]string, generation, intent int64, now time.Time,
	known Lookup, ballot *Ballot) (edits map[string]*string) {
	set := Parse(annotations)
	oldest := func(e Entry) int64 {
		if since, is := known.since(e.Digest); is {
			return min(intent, since)
		}
		return intent
	}
	claims := set.Claims.withdrawn(set.Approvals, intent, now)
	stale := map[string]bool{}
	for _, e := range set.Approvals {
		if e.Mode == v1alpha1.ApprovalAlways && e.Expiry == nil {
			continue
		}
		next, ended := ballot.next(e, claims.Of(e.Content), known, arrival(e, generation, oldest(e), now), oldest(e), intent, now)
		claims, stale[e.Content] = claims.put(next), ended
	}
	for _, e := range set.Withdrawn {
		claims = ballot.withdraw(e, claims)
	}
	edits = Remove(annotations, func(e Entry) bool { return stale[e.Content] })
	for key, value := range ballot.marks(set, claims, now) {
		if _, removed := edits[key]; !removed {
			edits[key] = value
		}
	}
	stored := annotations[v1alpha1.AnnotationKeyClaims]
	if value := claims.String(); !Same(value, stored) && (len(claims) > 0 || stored != "") {
		edits[v1alpha1.AnnotationKeyClaims] = &value
	}
	return edits
}

// next returns the claim of an approval after the write; ended is true where the approval is removed. fresh is the claim of one that is
// given by the write, oldest the generation before which one is stale.
func (b *Ballot) next(e Entry, had *v1alpha1.Claim, known Lookup, fresh v1alpha1.Claim, oldest, intent int64, now time.Time) (
	next v1alpha1.Claim, ended bool) {
	if had == nil || b.gives(e, *had, known, oldest, intent) {
		next = b.cast(e, fresh)
		next.Bound = known.bound(e.Digest)
		return next, false
	}
	next = *had
	if next.State == v1alpha1.ClaimOpen && (e.Mode != v1alpha1.ApprovalAlways && next.Generation < oldest || Ended(e.Expiry, now)) {
		next.State, next.At = v1alpha1.ClaimPruned, Stamp(now)
		return next, true
	}
	if next.State == v1alpha1.ClaimUnreviewed { // removed, so that writing the same value again is a request
		next.State, next.At = v1alpha1.ClaimPruned, Stamp(now)
		return next, true
	}
	if collecting(next) {
		next = b.cast(e, next)
		if b.adds(e) {
			next.Bound = cmp.Or(next.Bound, known.bound(e.Digest))
		}
	}
	return next, false
}

// Written returns annotations with an approval that Kausality itself writes, as for a policy: there was nothing to review.
func Written(annotations map[string]string, key, value string) map[string]string {
	out := map[string]string{key: value}
	for k, v := range annotations {
		if k != key {
			out[k] = v
		}
	}
	e, err := approve(key, value)
	claims := ParseClaims(out[v1alpha1.AnnotationKeyClaims])
	if had := claims.Of(e.Content); err == nil && had != nil && had.State == v1alpha1.ClaimUnreviewed {
		out[v1alpha1.AnnotationKeyClaims] = slices.DeleteFunc(claims, func(c v1alpha1.Claim) bool { return c.Content == e.Content }).String()
	}
	return out
}

// Known is what is known of the differences under an id, on the object on which they are approved.
type Known struct {
	// Named: one of them is held, or was refused or reported. A difference of which the composition function may hold a part is known
	// without that: under any id.
	Named bool
	// Since which intent generation one of them is held; math.MaxInt64 where none is.
	Since int64
	// External: one of them is the deletion of what has external resources, or a difference of one. It is never held since an intent.
	External bool
	// Digests of those that were refused or reported. None where only the id is known, and more than one where another difference
	// has the same id.
	Digests []change.Digest
}

// Lookup returns what is known under an id; false where nothing is. A nil Lookup knows nothing.
type Lookup func(id string) (Known, bool)

// of returns what is known of the difference that an approval names by its id or digest.
func (l Lookup) of(name string) (Known, bool) {
	if l == nil || name == "" {
		return Known{}, false
	}
	return l(change.Digest(name).ID())
}

func (l Lookup) since(name string) (since int64, is bool) {
	k, is := l.of(name)
	return k.Since, is
}

// is reports whether a difference was named to users under a name.
func (l Lookup) is(name string) bool {
	k, _ := l.of(name)
	return k.Named
}

// external reports whether a difference is one of an external resource, or a deletion.
func (l Lookup) external(name string) bool {
	k, _ := l.of(name)
	return k.External
}

// bound returns the digest that an approval under a name is about; "" where it is not known.
func (l Lookup) bound(name string) string {
	k, _ := l.of(name)
	for _, d := range k.Digests {
		if string(d) == name || len(k.Digests) == 1 && d.Is(name) {
			return string(d)
		}
	}
	return ""
}

// ambiguous returns the reason why an approval under a name is of no one difference; "" where there is none. bound is the digest that
// earlier votes for the same approval are about; "" for none.
func (l Lookup) ambiguous(name, bound string) string {
	k, _ := l.of(name)
	digests := slices.Clone(k.Digests)
	if bound != "" && !slices.Contains(digests, change.Digest(bound)) && len(digests) > 0 {
		digests = append(digests, change.Digest(bound))
	}
	if len(digests) < 2 || len(name) != change.IDLength {
		return ""
	}
	return fmt.Sprintf("%s is the id of two differences, %s and %s, and approves neither", name, digests[0], digests[1])
}

// arrival returns the claim of an approval that did not exist before. One that names a generation older than the
// intent is stale on arrival: it stays where a person just wrote it, without effect (KR-05-35, KR-05-32).
func arrival(e Entry, generation, intent int64, now time.Time) v1alpha1.Claim {
	c := v1alpha1.Claim{Content: e.Content, State: v1alpha1.ClaimOpen, Generation: cmp.Or(max(e.Generation, 0), generation), At: Stamp(now), Digest: e.Digest}
	c.Reason = annotation.Cut(e.Reason, v1alpha1.MaxCauseName)
	if c.Generation < intent && e.Mode != v1alpha1.ApprovalAlways || Ended(e.Expiry, now) {
		c.State = v1alpha1.ClaimPruned
	}
	return c
}

// withdrawn drops records of approvals that were never used and are no longer written. One that is stale counts as
// pruned: a request that is decided again on its own result must not treat the entries that it pruned as withdrawn.
func (c Claims) withdrawn(written []Entry, intent int64, now time.Time) Claims {
	out := make(Claims, 0, len(c))
	for _, e := range c {
		if e.State == v1alpha1.ClaimOpen && !e.Votes && !slices.ContainsFunc(written, func(w Entry) bool { return w.Content == e.Content }) {
			if e.Generation >= intent {
				continue
			}
			e.State, e.At = v1alpha1.ClaimPruned, Stamp(now)
		}
		out = append(out, e)
	}
	return out
}

// Discard returns the edits that remove all approvals but the lasting ones, and the claims: they were given to an
// object that has been deleted (KR-13-58).
func Discard(annotations map[string]string) map[string]*string {
	edits := Remove(annotations, func(e Entry) bool { return e.Mode != v1alpha1.ApprovalAlways })
	if annotations[v1alpha1.AnnotationKeyClaims] != "" {
		edits[v1alpha1.AnnotationKeyClaims] = nil
	}
	return edits
}

// Remove returns the edits that remove the entries that drop selects from a parent's annotations. The others stay as
// they are written, unknown fields included. An empty approvals list is removed altogether (KR-05-37).
func Remove(annotations map[string]string, drop func(Entry) bool) map[string]*string {
	edits := map[string]*string{}
	set := Parse(annotations)
	for _, e := range slices.Concat(set.Approvals, set.Withdrawn) {
		if v1alpha1.IsApprove(e.Key) && drop(e) {
			edits[e.Key] = nil
		}
	}
	value, ok := annotations[v1alpha1.AnnotationKeyApprovals]
	if !ok {
		return edits
	}
	list, err := approvals(value)
	var raw []map[string]any
	if err != nil || annotation.Unmarshal(value, annotation.MaxUser, &raw) != nil || len(raw) != len(list) {
		return edits
	}
	kept := make([]map[string]any, 0, len(raw))
	for i, e := range list {
		if !drop(e) {
			kept = append(kept, raw[i])
		}
	}
	if len(kept) == len(raw) {
		return edits
	}
	if len(kept) == 0 {
		edits[v1alpha1.AnnotationKeyApprovals] = nil
		return edits
	}
	if out, err := json.Marshal(kept); err == nil {
		text := string(out)
		edits[v1alpha1.AnnotationKeyApprovals] = &text
	}
	return edits
}
