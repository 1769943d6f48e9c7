package offline

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Composite is an observed composite with what is known about it.
type Composite struct {
	// State for the core: as observed, with the derived annotations. It is replaced,
	// never modified, when one of them changes.
	State *parent.State
	// Intent is the hop of the last intent.
	Intent v1alpha1.Hop
	// Webhook reports that the intent is recorded on the composite: a webhook keeps
	// its trace, claims and settled-generation, and nothing is derived.
	Webhook bool
	// Settled is the highest generation of an intent that settled; -1 for none, and
	// where a webhook records it.
	Settled int64
	// Latched reports that the last intent settled.
	Latched bool
	// First reports that nothing is missing but a run that has processed the last intent: it
	// settles if this one changes nothing.
	First bool
	// Waiting reports that nothing but the grace period is missing.
	Waiting bool
	// Secrets are the fields with secret values that the Input names. None of them is captured.
	Secrets change.SecretFields

	// known is the last intent that settled, as the last run stored it.
	known Note
	// above are the hops that led to the intent where it came from the composite's
	// own parent.
	above trace.Trace
	// withoutVotes is votesOf without its votes.
	votesOf, withoutVotes *parent.State
}

// Derive returns what is known about a composite. xr has its managedFields; observed are its composed
// resources, sorted by name. grace is how long it must stay converged before its intent settles. Nothing
// is modified.
func Derive(xr *unstructured.Unstructured, observed []*Resource, grace time.Duration, now time.Time) *Composite {
	state, stamped := Sum(xr, parent.RoleComposite)
	c := &Composite{State: state, Settled: -1}
	if hop, recorded := trace.Intent(state); recorded && stamped == nil {
		c.Intent, c.Webhook = hop, true
		c.disownClaims()
		c.account(xr, observed)
		return c
	}
	c.known = noted(xr, observed)
	c.Intent = lastIntent(state, observed, c.known, stamped.Own())
	if own := stamped.Own(); own != nil && same(*own, c.Intent) {
		c.above = stamped[:len(stamped)-1]
	}
	c.recall(observed)
	c.settle(observed, grace, now)
	c.Intent.Settled = c.Latched
	c.Annotate(v1alpha1.AnnotationKeyTrace, c.trace().String())
	c.annotateSettled()
	c.account(xr, observed)
	return c
}

// annotateSettled records the desired state at which the last intent settled in the State, where the
// core reads it, as a webhook does: times alone would show an intent that was not observed
// (KR-01-11).
func (c *Composite) annotateSettled() {
	if c.Latched && c.known.State != "" && c.known.Generation == c.Intent.Generation && c.known.At.Equal(c.Intent.Timestamp.Time) {
		generation := strconv.FormatInt(c.known.Generation, 10)
		c.State.Annotations[v1alpha1.AnnotationKeySettledGeneration] = generation // the map is this State's own
		c.State.Annotations[v1alpha1.AnnotationKeySettledState] = generation + "," + c.known.State
	}
}

// trace returns the trace of the composite with the derived intent.
func (c *Composite) trace() trace.Trace { return append(slices.Clone(c.above), c.Intent) }

// Annotate adds a derived fact to the annotations of the State, where the core reads it.
func (c *Composite) Annotate(key, value string) { c.State = Annotated(c.State, key, value) }

// Annotated returns a copy of a state with another annotation.
func Annotated(s *parent.State, key, value string) *parent.State {
	out := *s
	out.Annotations = ssa.Clone(s.Annotations)
	out.Annotations[key] = value
	return &out
}

// Sum returns the state of an object, and the trace that the pipeline of its own
// composite stamped on it; nil for none. The state of an object with such a trace
// leaves out the managedFields of Crossplane's composed applies: these write on
// every reconcile, and the intents among them are hops.
func Sum(o *unstructured.Unstructured, role parent.Role) (s *parent.State, stamped trace.Trace) {
	s = parent.Sum(o, role)
	if role != parent.RoleComposite {
		return s, nil
	}
	if stamped = stampedAbove(s); stamped != nil {
		s = parent.Sum(withoutComposed(o), role)
	}
	return s, stamped
}

// webhookKeys are annotations of a child that a webhook writes along with its
// trace, and the function never.
var webhookKeys = []string{v1alpha1.AnnotationKeyUpdaters, v1alpha1.AnnotationKeyControllers, v1alpha1.AnnotationKeyControllerIDs,
	v1alpha1.AnnotationKeyPhase, v1alpha1.AnnotationKeySettledGeneration}

// stampedAbove returns the trace of a nested composite that no webhook wrote, but the Kausality step
// of the pipeline that composes it. Nothing keeps the settled-generation of such a composite. nil for
// none. Its hops are as they were when the composite was changed.
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
	if own := out.Own(); own.Name == "" { // the name was generated after the trace was stamped
		own.Name = s.Name
	}
	return out
}

// withoutComposed returns a composite without the managedFields of composed applies.
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
