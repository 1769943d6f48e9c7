package approval

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// maxClaims is how many spent approvals are remembered per parent. The oldest
// go first; those that are open or pending never do.
const maxClaims = 64

// Claims is the value of a claims annotation.
type Claims []v1alpha1.Claim

// Use identifies one use of an approval: who changes which child from which
// version by what difference.
type Use struct {
	Child v1alpha1.ClaimChild
	// Digest is the id of the difference.
	Digest string
	// User hash.
	User string
	// Relation is v1alpha1.RelationExternal for a use by the gate.
	Relation v1alpha1.Relation
	// Claim is the id in the object's own hop, where the very same request is
	// decided again (a reinvocation); "" otherwise.
	Claim string `json:"-"`
	// Stale: a pending claim of the same use from before is claimed again, since it
	// may be released before this write lands. Zero for never, as for the gate.
	Stale time.Time `json:"-"`
}

// ParseClaims reads the annotation. A value that does not parse is empty, since only Kausality writes it.
func ParseClaims(value string) Claims {
	var c Claims
	if value == "" || json.Unmarshal([]byte(value), &c) != nil {
		return nil
	}
	return slices.DeleteFunc(c, func(e v1alpha1.Claim) bool { return e.State == v1alpha1.ClaimSeal })
}

// String returns the annotation's value without a seal: a JSON array, "[]" where there are no claims.
func (c Claims) String() string {
	if len(c) == 0 {
		return none
	}
	return annotation.MustMarshal(c)
}

// Of returns the claim of an approval, by its content hash, for the caller to change; nil where there is no claim.
func (c Claims) Of(content string) *v1alpha1.Claim {
	return c.first(func(e v1alpha1.Claim) bool { return e.Content == content })
}

// Find returns the claim with an id, for the caller to change; nil where there is no such claim.
func (c Claims) Find(id string) *v1alpha1.Claim {
	return c.first(func(e v1alpha1.Claim) bool { return id != "" && e.ID == id })
}

func (c Claims) first(is func(v1alpha1.Claim) bool) *v1alpha1.Claim {
	if i := slices.IndexFunc(c, is); i >= 0 {
		return &c[i]
	}
	return nil
}

// Use reports whether an approval may be used. claimed is the pending claim of the very same use, for a write that
// has not landed (a retry, a reinvocation). free is false where another use took the approval, or it is spent. A
// nameless CREATE is always a new use, unless it brings the claim's id. A stale claim of the same use is free for it
// to claim again (KR-05-33, KR-05-34).
func (c Claims) Use(content string, u Use) (claimed *v1alpha1.Claim, free bool) {
	have := c.Of(content)
	if have == nil || have.State == v1alpha1.ClaimOpen {
		return nil, true
	}
	if have.State != v1alpha1.ClaimPending || have.Child == nil || u.Child.Name == "" && (u.Claim == "" || u.Claim != have.ID) {
		return nil, false
	}
	// Invoked again, the difference is another one where a later webhook has
	// changed the object: the id in the hop identifies it. Once the write has landed, the
	// child's version is another one, too.
	same := sameChild(have, u) && have.User == u.User && (have.Digest == u.Digest || u.Claim != "" && u.Claim == have.ID)
	switch {
	case !same:
		return nil, false
	case have.ID != u.Claim && have.At.Time.Before(u.Stale):
		return nil, true
	}
	return have, true
}

// sameChild reports whether a claim is of the version of the child that a use is about. A kind without a generation has another
// resourceVersion after each write of its metadata, also where the API server tries a request again because of one: there the trace is
// compared that the child has, which each change of the desired state extends.
func sameChild(have *v1alpha1.Claim, u Use) bool {
	was, is := *have.Child, u.Child
	_, trace, of := strings.Cut(was.Version, versionOfTrace)
	_, now, hasTrace := strings.Cut(is.Version, versionOfTrace)
	switch {
	case of && hasTrace && have.Digest == u.Digest:
		was.Version, is.Version = trace, now
	case hasTrace && !of: // by an earlier release
		is.Version, _, _ = strings.Cut(is.Version, versionOfTrace)
	}
	return was == is
}

// Take returns the claims with an approval claimed for a use.
func (c Claims) Take(m Match, u Use, now time.Time) (Claims, v1alpha1.Claim) {
	child, e := u.Child, m.Entry
	claim := v1alpha1.Claim{
		Content: e.Content, State: v1alpha1.ClaimPending, At: Stamp(now), Generation: e.Generation,
		Child: &child, Digest: u.Digest, User: u.User, Relation: u.Relation, Reason: annotation.Cut(e.Reason, v1alpha1.MaxCauseName),
	}
	if have := c.Of(e.Content); have != nil {
		claim.Generation, claim.Mode, claim.Votes, claim.By = have.Generation, have.Mode, have.Votes, have.By
	}
	if m.By != nil && !slices.EqualFunc(m.By, claim.By, func(a, b v1alpha1.Vote) bool {
		return a.User == b.User && a.BreakGlass == b.BreakGlass && (a.Reason == "" || a.Reason == claim.Reason)
	}) {
		claim.Counted = m.By
	}
	claim.ID = useID(e.Content, u, now)
	return c.put(claim), claim
}

// versionOfWrite begins the version of a child whose kind has no generation: its resourceVersion.
const versionOfWrite = "rv"

// versionOfTrace precedes the digest of its trace in that.
const versionOfTrace = "-t"

// useIDLength is the number of hex digits of the id of a use.
const useIDLength = 12

// useID returns the id of one use. The time makes it another one when the same approval is written again after it was
// used. Where the child's kind has no generation, its version is not part of the id: each write of Kausality changes
// the resourceVersion, and the id is in that write (KR-09-17).
func useID(content string, u Use, now time.Time) string {
	if strings.HasPrefix(u.Child.Version, versionOfWrite) {
		u.Child.Version = ""
	}
	return annotation.Digest([]any{content, u, now.UnixNano()}, useIDLength)
}

// Set returns the claims with the state of one of them changed.
func (c Claims) Set(id string, state v1alpha1.ClaimState, now time.Time) Claims {
	have := c.Find(id)
	if have == nil {
		return c
	}
	next := *have
	next.State, next.At = state, Stamp(now)
	if state == v1alpha1.ClaimOpen {
		next.ID, next.Child, next.User, next.Counted = "", nil, "", nil
		if !next.Votes {
			next.Digest = ""
		}
	}
	return c.put(next)
}

// Mark returns the claims with that of an approval in a state, or a new one of that state; what else is recorded of it stays.
func (c Claims) Mark(content string, state v1alpha1.ClaimState) Claims {
	out := slices.Clone(c)
	if have := out.Of(content); have != nil {
		have.State = state
		return out
	}
	return append(out, v1alpha1.Claim{Content: content, State: state})
}

// put returns the claims with a claim in the place of that of the same approval, or at the end.
func (c Claims) put(claim v1alpha1.Claim) Claims {
	out := slices.Clone(c)
	if have := out.Of(claim.Content); have != nil {
		*have = claim
		return out
	}
	return append(out, claim).bounded()
}

// bounded drops the oldest spent claims above maxClaims. Claims that are not spent
// are never dropped: an approval could be used a second time.
func (c Claims) bounded() Claims {
	n := 0
	for _, e := range c {
		if e.Spent() {
			n++
		}
	}
	return slices.DeleteFunc(c, func(e v1alpha1.Claim) bool {
		drop := n > maxClaims && e.Spent()
		if drop {
			n--
		}
		return drop
	})
}

// Forget drops the records of spent approvals of a difference that occurs again, unless the approval itself is
// (still, or again) written on the parent. An approval that GitOps keeps writing stays spent, and a person may
// approve the same difference another time.
func (c Claims) Forget(digest string, written []Entry) Claims {
	return slices.DeleteFunc(slices.Clone(c), func(e v1alpha1.Claim) bool {
		return e.Spent() && e.Digest == digest && !slices.ContainsFunc(written, func(w Entry) bool { return w.Content == e.Content })
	})
}

// Stamp returns a time in the form that it has in annotations: UTC, whole seconds.
func Stamp(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }
