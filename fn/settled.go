package fn

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/kausality-io/function-kausality/admission/settling"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// note in the Kausality condition: the intent that settled. The composed
// resources' traces say it too, but an intent that changed none of them, and
// one whose resources are gone, stands nowhere else.
type note struct {
	generation int64
	at         time.Time
}

var notePattern = regexp.MustCompile(`Settled at generation ([0-9]{1,18}), asked for at ([0-9TZ:-]{20})\.`)

func (n note) String() string {
	return fmt.Sprintf("Settled at generation %d, asked for at %s.", n.generation, n.at.UTC().Format(time.RFC3339))
}

// noted in the observed composite's condition; the zero note for none.
func noted(xr map[string]any) note {
	m := notePattern.FindStringSubmatch(text(conditionOf(xr, conditionType), "message"))
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

// note of the last intent; only of one that settled.
func (c *composite) note() string {
	if c.webhook || !c.latched {
		return ""
	}
	return note{generation: c.intent.Generation, at: c.intent.Timestamp.Time}.String()
}

// recall what settled before.
func (c *composite) recall(resources []*resource, known note) {
	latch := func(h v1alpha1.Hop) {
		c.settled = max(c.settled, h.Generation)
		c.latched = c.latched || same(h, c.intent)
	}
	if known.generation > 0 {
		latch(v1alpha1.Hop{Generation: known.generation, Timestamp: metav1.NewTime(known.at)})
	}
	for _, r := range resources {
		if r.hop != nil && r.hop.Settled {
			latch(*r.hop)
		}
	}
}

// settle the last intent where the composite reached it. It stays settled.
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
		if r.owned.at.After(in.Written) {
			in.Written = r.owned.at
		}
	}
	return in
}

// state of the observed resource.
func (r *resource) state() *parent.State {
	if r.summed == nil {
		r.summed = parent.Sum(r.whole(), roleOf(child(r.observed.Object, "spec")))
	}
	return r.summed
}
