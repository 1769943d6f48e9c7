package settling

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Observation of a parent and its children, which decides whether the parent reached
// its intent (docs/specification.md, section 3).
type Observation struct {
	Parent *parent.State
	// Observed is the highest observed generation ever seen; valid where Known.
	Observed int64
	Known    bool
	// ObservedSince is when the intent generation was first seen to be observed;
	// zero where it already was at the first observation.
	ObservedSince time.Time
	// Children of an XR or Claim that exist; Missing: some could not be
	// read, so that their state is unknown.
	Children []*parent.State
	Missing  bool
	// Unwatched: a child is not watched, so that its changes wake nothing.
	Unwatched bool
	// Written is when the parent's controller last wrote to a child, where the
	// children's traces do not show it; zero where they do.
	Written time.Time
	// Grace during which an XR must stay converged.
	Grace time.Duration
	Now   time.Time
}

// unwatchedAgain is how long to wait before looking again at a composite that
// waits for children that no watch covers.
const unwatchedAgain = 5 * time.Second

// Settles reports whether the parent settled at its intent generation, and as
// Unsettled when to look again.
func (s Observation) Settles() (settled bool, again time.Duration) {
	why, again := s.Unsettled()
	return why == "", again
}

// FirstSeen returns the intent generation at which a parent had settled when it was first observed; false
// if it had not, or that is unknown. It is unknown of XRs and Claims, which settle by their children.
func (s Observation) FirstSeen() (generation int64, settled bool) {
	if s.Parent.Role == parent.RoleComposite || s.Parent.Role == parent.RoleClaim {
		return 0, false
	}
	if settled, _ = s.Settles(); !settled {
		return 0, false
	}
	intent, _ := trace.Intent(s.Parent)
	return intent.Generation, true
}

// Unsettled returns why the parent has not settled at its intent generation, as a
// clause; "" where it has. Where only time is missing, or no event would announce
// what is missing, again is how long to wait (KR-03-05, KR-03-08).
func (s Observation) Unsettled() (why string, again time.Duration) {
	p := s.Parent
	intent, _ := trace.Intent(p)
	late, again := s.late(p, s.Observed, intent.Generation)
	switch {
	case p.Deleting():
		return "it is being deleted", 0
	case intent.Generation == 0:
		return "its kind has no generation", 0
	case !p.Converged:
		return "it has not converged: " + unconverged(p), 0
	case !s.Known:
		return "its controller does not report which generation it has observed", 0
	case late && again > 0:
		return "Crossplane has not reconciled it since the last intent", again
	case late:
		return fmt.Sprintf("its controller has observed generation %d, the last intent is %d", s.Observed, intent.Generation), 0
	case p.Role != parent.RoleComposite && p.Role != parent.RoleClaim:
		return s.carriedOut(intent)
	case p.Throttled():
		return "Crossplane's circuit breaker delays its reconciles", 0
	case len(p.Children) == 0 && !s.composesNothing():
		return "it has no children yet", 0
	case s.Missing:
		return "some of its children cannot be read", unwatchedAgain
	case s.holds():
		return "the composition function holds something back", 0
	}
	return s.unsettledChild(intent)
}

// ReconciledWithin is longer than Crossplane delays a reconcile: its circuit breaker by 5 minutes, its queue by 30 seconds.
const ReconciledWithin = 6 * time.Minute

// late reports whether an object has not observed a generation, which a composite may report without having been composed
// for it. It counts with the next reconcile, or after ReconciledWithin: another version of Crossplane may have left
// the condition Responsive behind. again is how long that is; 0 where an event announces it (KR-03-10).
func (s Observation) late(o *parent.State, observed, generation int64) (is bool, again time.Duration) {
	reported := o.ReportedGeneration()
	if observed >= generation || o.Role != parent.RoleComposite || reported <= o.ObservedGeneration || reported < generation {
		return observed < generation, 0
	}
	again = o.ConvergedSince.Add(ReconciledWithin).Sub(s.Now)
	return again > 0, max(0, again)
}

// composesNothing reports whether a composite without composed resources has been
// composed: its revision is chosen, and Crossplane has reconciled it by that (KR-03-08).
// The first resource that a later revision adds is then a change like any other.
func (s Observation) composesNothing() bool {
	return s.Parent.Role == parent.RoleComposite && s.Parent.CompositionRevision != ""
}

// unsettledChild returns why an XR or Claim has not settled because of a child, or because it has not
// been converged for long enough, and when to check again; "" if neither is the case.
//
// The grace begins again with an intent, and when it is observed: Crossplane before 2.1 does not show
// which of its reconciles came after the intent (KR-03-07, KR-03-08).
func (s Observation) unsettledChild(intent v1alpha1.Hop) (why string, again time.Duration) {
	since := s.Parent.ConvergedSince
	responsive, _ := s.Parent.Condition(parent.ConditionResponsive) // zero where Crossplane has no breaker
	for _, t := range []time.Time{intent.Timestamp.Time, s.ObservedSince, s.Written, responsive.LastTransitionTime} {
		if t.After(since) {
			since = t
		}
	}
	for _, c := range s.Children {
		own := trace.Of(c.Annotations).Own()
		if own != nil && own.Timestamp.After(since) {
			since = own.Timestamp.Time
		}
		if !carries(c, s.Parent, intent.Generation) {
			continue
		}
		if settled, again := s.childSettled(c); !settled {
			if s.Unwatched {
				again = unwatchedAgain
			}
			return identity.Describe(c.Ref) + " below it has not settled", again
		}
	}
	if left := since.Add(s.Grace).Sub(s.Now); left > 0 {
		return "it has not been converged for long enough", left
	}
	return "", 0
}

// carriedOut returns why an instance of a graph has not settled although it has converged, and "" for other kinds: kro reports that after
// its first pass, and what one resource takes over from another, as it is stored, follows in the next (KR-18-03).
func (s Observation) carriedOut(intent v1alpha1.Hop) (why string, again time.Duration) {
	since := intent.Timestamp.Time
	if s.ObservedSince.After(since) {
		since = s.ObservedSince
	}
	if left := since.Add(s.Grace).Sub(s.Now); s.Parent.Role == parent.RoleInstance && left > 0 {
		return "it has not been converged for long enough", left
	}
	return "", 0
}

// unconverged returns what an object lacks, as a clause.
func unconverged(p *parent.State) string {
	for _, t := range []string{"Synced", "Ready"} {
		if p.Crossplane() && !p.True(t) {
			return t + " is not True"
		}
	}
	return "its status does not report it as current"
}

// FunctionHolds reports whether the condition of a composite shows that the composition
// function holds something back.
func FunctionHolds(p *parent.State) bool {
	c, ok := p.Condition(v1alpha1.ConditionKausality)
	return ok && c.Status == metav1.ConditionFalse && (c.Reason == v1alpha1.ConditionReasonHeld || c.Reason == v1alpha1.ConditionReasonFrozen)
}

// holds reports whether the composition function holds something that was not held before the last intent, which changes
// nothing of that (KR-05-59). A record counts without the condition: Crossplane writes that later, or has a conflict.
func (s Observation) holds() bool {
	before, since := s.records()
	c, _ := s.Parent.Condition(v1alpha1.ConditionKausality)
	return since || FunctionHolds(s.Parent) && !(before && c.Reason == v1alpha1.ConditionReasonHeld)
}

// records reports whether the records on the children show what was held before the last intent, and
// what was held since. A record that does not parse counts as since.
func (s Observation) records() (before, since bool) {
	note := func(h bool) { before, since = before || h, since || !h }
	for _, c := range s.Children {
		if c.Parent.UID != s.Parent.UID {
			continue
		}
		if value := c.Annotations[v1alpha1.AnnotationKeyHeld]; value != "" {
			var h v1alpha1.Held
			note(json.Unmarshal([]byte(value), &h) == nil && h.Before)
		}
		var list []v1alpha1.HeldCreation
		if value := c.Annotations[v1alpha1.AnnotationKeyHeldCreations]; value != "" && json.Unmarshal([]byte(value), &list) != nil {
			note(false)
		}
		for _, h := range list {
			note(h.Before)
		}
	}
	return before, since
}

// carries reports whether a child's trace comes from an intent of its parent.
func carries(c, p *parent.State, generation int64) bool {
	hops := trace.Of(c.Annotations)
	if len(hops) < 2 {
		return false
	}
	h := hops[len(hops)-2]
	return h.Kind == p.Kind && h.Generation == generation
}

// childSettled reports whether a child carried out the change that its trace records. An
// open gate has not let it through completely, but for that of a creation, which stays open for a while after the child is
// Ready (KR-08-06); and a composite whose reconciles are delayed may have more to do. again is as that of late.
func (s Observation) childSettled(c *parent.State) (is bool, again time.Duration) {
	gate := mask.ParseGate(c.Annotations)
	created := gate.Reason == v1alpha1.GateReasonCreated && c.True("Ready")
	if !c.Converged || c.Throttled() || gate.State == v1alpha1.GateOpen && !created {
		return false, 0
	}
	own := trace.Of(c.Annotations).Own()
	if !c.HasObserved || own == nil {
		return true, 0
	}
	// A hop may be ahead of its object: what its author changed behind the mask
	// leaves the stored spec, and so the generation, as it was.
	late, again := s.late(c, c.ObservedGeneration, min(own.Generation, c.Generation))
	return !late, again
}

// Settled reports whether a parent settled at its last intent: known is the
// highest intent generation at which it is known to have settled by other means
// than its annotation, -1 for none (KR-03-05).
func Settled(p *parent.State, known int64) bool {
	intent, _ := trace.Intent(p)
	return SettledAt(p, intent.Generation, known)
}

// SettledAt reports whether a parent settled at or past an intent generation.
func SettledAt(p *parent.State, intent, known int64) bool {
	latch := max(p.SettledGeneration(), known)
	return latch > 0 && latch >= intent
}

// Phase returns the phase of a parent's lifecycle. initialized are the condition types that report its
// kind as initialized; empty for Initialized and Ready.
func Phase(p *parent.State, known int64, initialized ...string) v1alpha1.Phase {
	return p.Phase(max(p.SettledGeneration(), known) > 0, initialized...)
}
