package offline

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// SettledIntent returns the note of the last intent; the zero Note while it has not settled, and where
// a webhook records that.
func (c *Composite) SettledIntent() Note {
	if c.Webhook || !c.Latched {
		return Note{}
	}
	return noteOf(c.Intent)
}

// NoteFor returns the value of v1alpha1.AnnotationKeySettledIntent on the resource that stores it: the
// last intent that settled, whatever followed it, with the desired state. "" where the trace that the
// resource carries from now on shows all that is known.
func (c *Composite) NoteFor(carried trace.Trace) string {
	if c.Webhook {
		return ""
	}
	last := c.known.Later(c.SettledIntent())
	if now := noteOf(c.Intent); c.Latched && last.Generation == now.Generation && last.At.Equal(now.At) {
		last.State = stateOf(c.State)
	}
	if n := len(carried); n > 1 && carried[n-2].Settled && noteOf(carried[n-2]) == last {
		return ""
	}
	return last.Annotation()
}

// MarkSettled returns the trace of a resource with the composite's hop marked as
// settled; nil where it needs no mark.
func (c *Composite) MarkSettled(r *Resource) trace.Trace {
	if c.Webhook || !c.Latched || r.Hop == nil || r.Hop.Settled || !same(*r.Hop, c.Intent) {
		return nil
	}
	out := slices.Clone(r.Trace)
	out[len(out)-2].Settled = true
	return out
}

// recall reads which intents settled in earlier runs.
func (c *Composite) recall(observed []*Resource) {
	latch := func(h v1alpha1.Hop) {
		c.Settled = max(c.Settled, h.Generation)
		c.Latched = c.Latched || same(h, c.Intent)
	}
	if c.known.Generation > 0 {
		latch(v1alpha1.Hop{Generation: c.known.Generation, Timestamp: metav1.NewTime(c.known.At)})
	}
	for _, r := range observed {
		if r.Hop != nil && r.Hop.Settled {
			latch(*r.Hop)
			// Any resource may be the last that shows it: the write of the one that stores the note may have been lost.
			c.known = c.known.Later(noteOf(*r.Hop))
		}
	}
}

// settle records that the last intent has settled where the composite reached it. An intent stays
// settled (KR-09-10).
//
// The conditions may be those of a reconcile during which an intent came, and this run the first for
// that intent: Crossplane has updated Responsive in the composite by now. An earlier run shows in the
// hops of what it changed, or by time (KR-03-10).
func (c *Composite) settle(observed []*Resource, grace time.Duration, now time.Time) {
	if c.Latched {
		return
	}
	in := c.observation(observed)
	in.Grace, in.Now = grace, now
	settled, again := in.Settles()
	if c.Waiting = again > 0; !settled {
		return
	}
	in.Grace = max(grace, settling.ReconciledWithin)
	before, _ := in.Settles()
	c.First = !before && !slices.ContainsFunc(observed, func(r *Resource) bool { return r.Hop != nil && same(*r.Hop, c.Intent) })
	if !c.First {
		c.Latched, c.Settled = true, max(c.Settled, c.Intent.Generation)
	}
}

// observation returns what package settling needs to know about the composite. Its children are the
// observed resources. A Crossplane that reports no generation has observed the intent: it runs the
// pipeline for it. Traces that the function stamps have the time of the intent, so that managedFields
// show when a child was written last.
func (c *Composite) observation(observed []*Resource) settling.Observation {
	xr := Annotated(c.State, v1alpha1.AnnotationKeyTrace, c.trace().String())
	xr.Children = nil
	in := settling.Observation{Parent: xr, Observed: xr.ObservedGeneration, Known: true}
	if !xr.HasObserved {
		in.Observed = c.Intent.Generation
	}
	for _, r := range observed {
		xr.Children = append(xr.Children, r.State().Ref)
		in.Children = append(in.Children, r.State())
		if r.Owned.At.After(in.Written) {
			in.Written = r.Owned.At
		}
	}
	return in
}
