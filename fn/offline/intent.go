package offline

import (
	"time"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// lastIntent derives the hop of a composite's last intent from managedFields
// (KR-09-09).
//
// Crossplane writes to the spec of a composite itself, so that a new generation
// alone is no intent. The generation at which an intent was first observed comes
// from the composed resources' traces, from the stored note, or from own, the hop
// that the composite's own parent stamped (nil for none); of these the newest
// counts. A new intent needs a later generation, a later write of the desired state,
// and another desired state than that of the note: an annotation moves the time of all
// that its manager owns.
func lastIntent(s *parent.State, observed []*Resource, known Note, own *v1alpha1.Hop) v1alpha1.Hop {
	at := s.IntentTime
	if s.ScaleTime.After(at) {
		at = s.ScaleTime
	}
	if at.IsZero() && own == nil { // else it was created by that hop
		at = s.Created
	}
	last, found := newest(observed, s.Generation)
	if known.Generation > 0 || !known.At.IsZero() {
		h := trace.Unattributed(s, known.Generation, known.At)
		// Of the same intent the trace is better: it has the labels of its time.
		if !found || h.Generation >= last.Generation && !same(h, last) {
			last, found = h, true
		}
	}
	if own != nil && own.Generation <= s.Generation && (!found || own.Generation > last.Generation) {
		last, found = *own, true
	}
	// In the form of the composite's own trace.
	last.Namespace, last.ClusterScoped, last.Settled = "", false, false
	asSettled := known.State != "" && known.State == stateOf(s) && known.Generation == last.Generation && known.At.Equal(last.Timestamp.Time)
	if !found || !asSettled && s.Generation > last.Generation && at.After(latestWrite(last)) {
		return trace.Unattributed(s, s.Generation, at)
	}
	return last
}

// newest returns the newest hop of the composite in its resources' traces, the first of several. A hop
// of a generation that the composite has not reached is another composite's.
func newest(observed []*Resource, generation int64) (last v1alpha1.Hop, found bool) {
	for _, r := range observed {
		if r.Hop != nil && r.Hop.Generation <= generation && (!found || r.Hop.Generation > last.Generation) {
			last, found = *r.Hop, true
		}
	}
	return last, found
}

// latestWrite returns the latest time at which managedFields may show the write of a hop.
func latestWrite(h v1alpha1.Hop) time.Time {
	if h.Unattributed {
		return h.Timestamp.Time // taken from managedFields
	}
	return h.Timestamp.Add(trace.Tolerance)
}

// same reports whether two hops of the composite are one intent.
func same(a, b v1alpha1.Hop) bool {
	return a.Generation == b.Generation && a.Timestamp.Equal(&b.Timestamp)
}
