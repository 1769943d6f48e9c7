package fn

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

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

// settle the last intent where the composite came to rest (spec 3, "An XR
// settles"). It is for good.
func (c *composite) settle(resources []*resource, grace time.Duration, now time.Time) {
	if c.webhook || c.latched || !c.atRest(resources) {
		return
	}
	if now.Sub(c.quietSince(resources)) < grace {
		c.waiting = true
		return
	}
	c.latched, c.settled = true, max(c.settled, c.intent.Generation)
}

// atRest: converged, with all that the intent brought about.
func (c *composite) atRest(resources []*resource) bool {
	s := c.state
	own, _ := s.Condition(conditionType)
	if !s.Converged || s.HasObserved && s.ObservedGeneration < c.intent.Generation || own.Status == metav1.ConditionFalse {
		return false
	}
	some := false
	for _, r := range resources {
		if r.observed == nil {
			continue
		}
		some = true
		if r.hop == nil || !same(*r.hop, c.intent) {
			continue
		}
		if r.gate().State == v1alpha1.GateOpen || !r.state().Converged {
			return false
		}
	}
	return some
}

// quietSince is the newest write to a resource, or change of a condition.
func (c *composite) quietSince(resources []*resource) time.Time {
	newest := c.intent.Timestamp.Time
	later := func(t time.Time) {
		if t.After(newest) {
			newest = t
		}
	}
	later(c.state.ConvergedSince)
	for _, r := range resources {
		if r.observed == nil {
			continue
		}
		later(r.owned.at)
		if r.hop != nil && same(*r.hop, c.intent) {
			later(r.state().ConvergedSince)
		}
	}
	return newest
}

// state of the observed resource.
func (r *resource) state() *parent.State {
	if r.summed == nil {
		r.summed = parent.Sum(r.whole(), roleOf(child(r.observed.Object, "spec")))
	}
	return r.summed
}
