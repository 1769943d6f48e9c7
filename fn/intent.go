package fn

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// composite is the XR: its state, and what can be derived without a webhook.
type composite struct {
	// state as the core is to see it: with the trace and the claims derived.
	state *parent.State
	// intent is the hop of the last intent.
	intent v1alpha1.Hop
	// webhook: its intent is on record, so that a webhook keeps its trace and
	// settled-generation.
	webhook bool
	// settled is the highest generation of an intent that settled, as derived;
	// -1 for none, and where a webhook knows.
	settled int64
	// known is the last intent that settled, as the last run stored it.
	known note
	// latched: the last intent settled.
	latched bool
	// waiting for nothing but the grace period.
	waiting bool
	// used contents of once approvals.
	used map[string]bool
	// above are the hops that led to the intent, where it came from above.
	above trace.Trace
}

// compositeOf the observed XR.
func compositeOf(xr *unstructured.Unstructured, state *parent.State, resources []*resource) *composite {
	c := &composite{state: state, settled: -1, used: map[string]bool{}}
	stamped := stampedAbove(state)
	if hop, recorded := trace.Intent(state); recorded && stamped == nil {
		c.intent, c.webhook = hop, true
		return c
	}
	c.known = noted(xr, resources)
	if stamped != nil {
		c.state = parent.Sum(withoutComposed(xr), parent.RoleComposite)
	}
	c.intent = derive(c.state, resources, c.known, stamped.Own())
	if own := stamped.Own(); own != nil && same(*own, c.intent) {
		c.above = stamped[:len(stamped)-1]
	}
	c.recall(resources)
	return c
}

// webhookKeys are annotations of a child that a webhook writes along with its
// trace, and the function never.
var webhookKeys = []string{v1alpha1.AnnotationKeyUpdaters, v1alpha1.AnnotationKeyControllers,
	v1alpha1.AnnotationKeyPhase, v1alpha1.AnnotationKeySettledGeneration}

// stampedAbove is the trace of a nested composite that no webhook wrote: the
// Kausality step of the pipeline that composes it did, and nobody keeps its
// settled-generation. nil for none. Its hops are as they were when the
// composite was changed.
func stampedAbove(s *parent.State) trace.Trace {
	if s.Parent.UID == "" || slices.ContainsFunc(webhookKeys, func(k string) bool { return s.Annotations[k] != "" }) {
		return nil
	}
	out := trace.Of(s.Annotations)
	if len(out) == 0 {
		return nil
	}
	for i := range out {
		out[i].Settled = false
	}
	if own := out.Own(); own.Name == "" { // not known before Crossplane created it
		own.Name = s.Name
	}
	return out
}

// withoutComposed is a composite without the managedFields of what composes it
// in turn: that writes on every reconcile, and its intents are hops.
func withoutComposed(xr *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: maps.Clone(xr.Object)}
	metadata := maps.Clone(ssa.Child(out.Object, "metadata"))
	list, _ := metadata["managedFields"].([]any)
	metadata["managedFields"] = slices.DeleteFunc(slices.Clone(list), func(e any) bool {
		entry, _ := e.(map[string]any)
		return subject.IsComposedApply(ssa.Text(entry, "manager"))
	})
	out.Object["metadata"] = metadata
	return out
}

// derive the hop of the last intent from managedFields. Crossplane moves the
// generation of a composite itself, so the generation at which an intent was
// first seen is looked up in the composed resources' traces, or the note in the
// condition, and only a later change of the desired state is a new intent. own
// is the hop that came from above; nil for none (KR-09-09).
func derive(s *parent.State, resources []*resource, known note, own *v1alpha1.Hop) v1alpha1.Hop {
	at := s.IntentTime
	if s.ScaleTime.After(at) {
		at = s.ScaleTime
	}
	if at.IsZero() && own == nil { // else it was created by that hop
		at = s.Created
	}
	fresh := unattributed(s, s.Generation, at)
	last, found := newest(resources, s.Generation)
	if known.generation > 0 || !known.at.IsZero() {
		h := unattributed(s, known.generation, known.at)
		// Of the same intent the trace says more: its labels as they were.
		if !found || h.Generation >= last.Generation && !same(h, last) {
			last, found = h, true
		}
	}
	if own != nil && own.Generation <= s.Generation && (!found || own.Generation > last.Generation) {
		last, found = *own, true
	}
	// As the composite's own trace has it.
	last.Namespace, last.ClusterScoped, last.Settled = "", false, false
	if !found || s.Generation > last.Generation && at.After(expected(last)) {
		return fresh
	}
	return last
}

// newest hop of the composite in its resources' traces, the first of several;
// none of a generation that is yet to come.
func newest(resources []*resource, generation int64) (last v1alpha1.Hop, found bool) {
	for _, r := range resources {
		if r.hop != nil && r.hop.Generation <= generation && (!found || r.hop.Generation > last.Generation) {
			last, found = *r.hop, true
		}
	}
	return last, found
}

// unattributed hop of a composite's intent, with its labels as they are now.
func unattributed(s *parent.State, generation int64, at time.Time) v1alpha1.Hop {
	h := trace.Hop(s.Ref, generation, "", at)
	h.Unattributed, h.Labels = true, trace.Labels(s.Annotations)
	return h
}

// expected is the latest time at which managedFields may show the write of a
// hop.
func expected(h v1alpha1.Hop) time.Time {
	if h.Unattributed {
		return h.Timestamp.Time // taken from there
	}
	return h.Timestamp.Add(trace.Tolerance)
}

// same reports whether two hops of the composite are one intent.
func same(a, b v1alpha1.Hop) bool {
	return a.Generation == b.Generation && a.Timestamp.Equal(&b.Timestamp)
}

// annotate the state with what was derived: the core reads it there.
func (c *composite) annotate(key, value string) { c.state = annotated(c.state, key, value) }

// annotated is a state with another annotation.
func annotated(s *parent.State, key, value string) *parent.State {
	out := *s
	out.Annotations = maps.Clone(s.Annotations)
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[key] = value
	return &out
}

// trace of the composite with the derived intent.
func (c *composite) trace() trace.Trace { return append(slices.Clone(c.above), c.intent) }

// record the derived intent in the state.
func (c *composite) record() {
	if c.webhook {
		return
	}
	c.intent.Settled = c.latched
	c.annotate(v1alpha1.AnnotationKeyTrace, c.trace().String())
}
