package fn

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/fn/ssa"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// note is the last intent that settled. The composed resources' traces show it
// too, but not an intent that changed none of them, nor one whose resources are
// gone. The zero note is none.
type note struct {
	generation int64
	at         time.Time
}

// annotation is the value of v1alpha1.AnnotationKeySettledIntent; "" for none.
func (n note) annotation() string {
	if n == (note{}) {
		return ""
	}
	raw, err := json.Marshal(v1alpha1.SettledIntent{Generation: n.generation, At: metav1.NewTime(n.at.UTC())})
	if err != nil {
		return "" // numbers and times always marshal
	}
	return string(raw)
}

// String is the sentence for users in the message of the condition; "" for none.
func (n note) String() string {
	if n == (note{}) {
		return ""
	}
	return fmt.Sprintf("Settled at generation %d, asked for at %s.", n.generation, n.at.UTC().Format(time.RFC3339))
}

// later of two notes.
func (n note) later(o note) note {
	if o.generation > n.generation || o.generation == n.generation && o.at.After(n.at) {
		return o
	}
	return n
}

// parseNote reads v1alpha1.AnnotationKeySettledIntent; the zero note for what does
// not parse.
func parseNote(value string) note {
	s := v1alpha1.SettledIntent{}
	if value == "" || json.Unmarshal([]byte(value), &s) != nil {
		return note{}
	}
	return note{generation: s.Generation, at: s.At.UTC()}
}

// shown is the note of its composite that a resource carries, in its annotation
// or in its trace.
func shown(s *parent.State) note {
	out := parseNote(s.Annotations[v1alpha1.AnnotationKeySettledIntent])
	if t := trace.Of(s.Annotations); len(t) > 1 && t[len(t)-2].Settled {
		out = out.later(noteOf(t[len(t)-2]))
	}
	return out
}

// noted of a composite by its observed resources and, for one release, by the
// message of its condition, where earlier releases stored it. What a resource
// carries of a generation that is yet to come is another composite's.
func noted(xr *unstructured.Unstructured, resources []*resource) note {
	out := messageNote(xr.Object)
	for _, r := range resources {
		if n := parseNote(r.annotation(v1alpha1.AnnotationKeySettledIntent)); n.generation <= xr.GetGeneration() {
			out = out.later(n)
		}
	}
	return out
}

var notePattern = regexp.MustCompile(`Settled at generation ([0-9]{1,18}), asked for at ([0-9TZ:-]{20})\.`)

// messageNote is the note in the message of an observed composite's condition.
func messageNote(xr map[string]any) note {
	m := notePattern.FindStringSubmatch(ssa.Text(ssa.Condition(xr, v1alpha1.ConditionKausality), "message"))
	if m == nil {
		return note{}
	}
	generation, err := strconv.ParseInt(m[1], 10, 64)
	at, terr := time.Parse(time.RFC3339, m[2])
	if err != nil || terr != nil {
		return note{}
	}
	return note{generation: generation, at: at}
}

// noteOf a hop of the composite.
func noteOf(h v1alpha1.Hop) note {
	return note{generation: h.Generation, at: h.Timestamp.UTC()}
}

// settledIntent is the note of the last intent; only of one that settled.
func (c *composite) settledIntent() note {
	if c.webhook || !c.latched {
		return note{}
	}
	return noteOf(c.intent)
}

// lastSettled is the note of the last intent that settled, whatever came since.
func (c *composite) lastSettled() note {
	if c.webhook {
		return note{}
	}
	return c.known.later(c.settledIntent())
}

// recall what settled before.
func (c *composite) recall(resources []*resource) {
	latch := func(h v1alpha1.Hop) {
		c.settled = max(c.settled, h.Generation)
		c.latched = c.latched || same(h, c.intent)
	}
	if c.known.generation > 0 {
		latch(v1alpha1.Hop{Generation: c.known.generation, Timestamp: metav1.NewTime(c.known.at)})
	}
	for _, r := range resources {
		if r.hop != nil && r.hop.Settled {
			latch(*r.hop)
		}
	}
}

// settle the last intent where the composite reached it. It stays settled (KR-09-10).
func (c *composite) settle(resources []*resource, grace time.Duration, now time.Time) {
	if c.webhook || c.latched {
		return
	}
	in := c.settling(resources)
	in.Grace, in.Now = grace, now
	settled, again := in.Settles()
	if c.waiting = again > 0; settled {
		c.latched, c.settled = true, max(c.settled, c.intent.Generation)
	}
}

// settling is the composite for the core, with what a request shows of it. Its
// children are the observed resources. A Crossplane that reports no generation
// has seen the intent: it runs the pipeline for it. Traces that the function
// stamps have the time of the intent, so that managedFields tell when a child was
// written last.
func (c *composite) settling(resources []*resource) settling.Observation {
	xr := annotated(c.state, v1alpha1.AnnotationKeyTrace, c.trace().String())
	xr.Children = nil
	in := settling.Observation{Parent: xr, Observed: xr.ObservedGeneration, Known: true}
	if !xr.HasObserved {
		in.Observed = c.intent.Generation
	}
	for _, r := range resources {
		if r.observed == nil {
			continue
		}
		xr.Children = append(xr.Children, r.state().Ref)
		in.Children = append(in.Children, r.state())
		if r.owned.At.After(in.Written) {
			in.Written = r.owned.At
		}
	}
	return in
}

// state of the observed resource.
func (r *resource) state() *parent.State {
	if r.summed == nil {
		r.summed = parent.Sum(r.whole(), ssa.RoleOf(ssa.Child(r.observed.Object, "spec")))
	}
	return r.summed
}
