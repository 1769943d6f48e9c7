package admission

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Settling is what decides whether a parent reached its intent (spec 3).
type Settling struct {
	Parent *parent.State
	// Observed is the highest observed generation ever seen; valid where Known.
	Observed int64
	Known    bool
	// Children of an XR or Claim that exist; Missing says that some could not
	// be read, so that nothing is said about them.
	Children []*parent.State
	Missing  bool
	// Unwatched: a child was read, so that nobody tells when it changes.
	Unwatched bool
	// Grace during which an XR must stay converged.
	Grace time.Duration
	Now   time.Time
}

// unwatchedAgain is how long to wait before looking again at a composite that
// waits for children of which no watch tells anything.
const unwatchedAgain = 5 * time.Second

// Settles reports whether the parent settled at its intent generation. Where
// only time is missing, or nobody would tell when what is missing is there,
// again is how long to wait.
func (s Settling) Settles() (settled bool, again time.Duration) {
	p := s.Parent
	intent, _ := trace.Intent(p)
	if p.Deleting() || intent.Generation == 0 || !p.Converged || !s.Known || s.Observed < intent.Generation {
		return false, 0
	}
	if p.Role != parent.RoleComposite && p.Role != parent.RoleClaim {
		return true, 0
	}
	switch {
	case len(p.Children) == 0, held(p):
		return false, 0
	case s.Missing:
		return false, unwatchedAgain
	}
	since := p.ConvergedSince
	for _, c := range s.Children {
		own := trace.Of(c.Annotations).Own()
		if own != nil && own.Timestamp.After(since) {
			since = own.Timestamp.Time
		}
		if carries(c, p, intent.Generation) && !childSettled(c) {
			if s.Unwatched {
				again = unwatchedAgain
			}
			return false, again
		}
	}
	if left := since.Add(s.Grace).Sub(s.Now); left > 0 {
		return false, left
	}
	return true, 0
}

// held reports whether the composition function holds something back.
func held(p *parent.State) bool {
	c, ok := p.Conditions["Kausality"]
	return ok && c.Status == metav1.ConditionFalse && (c.Reason == ConditionHeld || c.Reason == ConditionFrozen)
}

// Reasons of the condition Kausality of an XR.
const (
	ConditionAllowed = "Allowed"
	ConditionHeld    = "Held"
	ConditionFrozen  = "Frozen"
)

// carries reports whether a child's trace comes from an intent of its parent.
func carries(c, p *parent.State, generation int64) bool {
	hops := trace.Of(c.Annotations)
	if len(hops) < 2 {
		return false
	}
	h := hops[len(hops)-2]
	return h.Kind == p.Kind && h.Generation == generation
}

func childSettled(c *parent.State) bool {
	if mask.ParseGate(c.Annotations).State == v1alpha1.GateOpen {
		return false
	}
	own := trace.Of(c.Annotations).Own()
	// A hop may be ahead of its object: what its author changed behind the mask
	// leaves the stored spec, and so the generation, as it was.
	return c.Converged && (!c.HasObserved || own == nil || c.ObservedGeneration >= min(own.Generation, c.Generation))
}

// Landed tells what became of a pending claim: the state it should have, given
// the child as it is now (nil where it is gone), or "" where it is too early to
// tell (spec 5, "A claim goes back only if the write can be shown not to have
// landed").
func Landed(c v1alpha1.Claim, child *parent.State, now time.Time) v1alpha1.ClaimState {
	if child != nil {
		if own := trace.Of(child.Annotations).Own(); own != nil && own.Approval != nil && own.Approval.Claim == c.ID {
			return v1alpha1.ClaimUsed
		}
	}
	if now.Sub(c.At.Time) < claimGrace {
		return ""
	}
	created := c.Child == nil || c.Child.UID == ""
	switch {
	case child == nil && created && c.Child != nil && c.Child.Name != "":
		return v1alpha1.ClaimOpen // the CREATE never landed
	case child != nil && !created && child.UID == c.Child.UID && VersionOf(child) == c.Child.Version:
		return v1alpha1.ClaimOpen // nothing changed since
	}
	return v1alpha1.ClaimUsed
}

// claimGrace is how long a write may take to land.
const claimGrace = 30 * time.Second
