package gate

import (
	"slices"
	"sync"
	"time"

	"github.com/kausality-io/function-kausality/admission/gating"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/telemetry"
)

var (
	transitions = telemetry.NewCounter("kausality_gate_transitions_total")
	openFor     = telemetry.NewHistogram("kausality_gate_open_seconds")
	wakeups     = telemetry.NewCounter("kausality_gate_wakeups_total").WithLabelValues()
	repeated    = telemetry.NewCounter("kausality_gate_repeated_deletions_total").WithLabelValues()
	orphans     = telemetry.NewCounter("kausality_gate_orphans_total").WithLabelValues()
)

// closedAfter is told of a gate that closed.
func closedAfter(opened time.Time, reason string) {
	if !opened.IsZero() {
		openFor.WithLabelValues(reason).Observe(time.Since(opened).Seconds())
	}
}

var (
	gatesDesc   = telemetry.Desc("kausality_gates")
	oldestDesc  = telemetry.Desc("kausality_gate_oldest_open_seconds")
	driftDesc   = telemetry.Desc("kausality_external_drift")
	unknownDesc = telemetry.Desc("kausality_external_drift_unknown")
)

// sight is what is known of what an object stands for.
type sight struct {
	differs bool
	// blind: why that is not known, or a part of it.
	blind gating.UnknownDrift
}

// sights of objects of external systems without managementPolicies, as they were
// looked at last: the watches keep too little of them. It holds those that exist.
type sights struct{ byRef sync.Map }

func (s *sights) note(ref parent.Ref, v external.View) {
	one := sight{differs: len(v.Difference) > 0}
	if !v.Known {
		one.blind = gating.UnknownNotLooking
	}
	s.byRef.Store(withoutUID(ref), one)
}

func (s *sights) forget(ref parent.Ref) { s.byRef.Delete(withoutUID(ref)) }

func (s *sights) of(ref parent.Ref) sight {
	v, _ := s.byRef.Load(withoutUID(ref))
	one, _ := v.(sight) // the zero sight until it was looked at
	return one
}

// collector reports how the gates stand, from the watches, when it is asked.
type collector struct {
	kinds func() []cluster.Info
	list  func(schema.GroupVersionKind) []*cluster.Object
	look  func(*cluster.Object) sight
	now   func() time.Time
}

func newCollector(c *cluster.Cluster, ctl *Controller) collector {
	list := func(gvk schema.GroupVersionKind) []*cluster.Object {
		return slices.DeleteFunc(c.States.List(gvk), func(o *cluster.Object) bool { return !ctl.ours(o.State.Ref) })
	}
	return collector{kinds: c.Kinds.All, list: list, now: time.Now, look: func(o *cluster.Object) sight {
		if systems.For(o.GroupVersionKind) != nil {
			return ctl.sights.of(o.State.Ref)
		}
		s := c.Settings(o.State.Ref, o.State.Labels)
		return sight{differs: o.Gone || len(s.Relevant(o.External)) > 0, blind: o.Blind()}
	}}
}

// Describe the metrics.
func (collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{gatesDesc, oldestDesc, driftDesc, unknownDesc} {
		out <- d
	}
}

// tally of the kinds of one name: there may be several, in groups of their own.
type tally struct {
	open, closed, differ int
	unknown              map[gating.UnknownDrift]int
	oldest               time.Duration
}

func (t *tally) add(o *cluster.Object, s sight, now time.Time) {
	_, masked := o.Annotations[v1alpha1.AnnotationKeyManagementPolicies]
	if _, foreign := o.Annotations[v1alpha1.AnnotationKeyExternalAuthor]; !masked && !foreign {
		return
	}
	gate := mask.ParseGate(o.Annotations)
	if gate.State == v1alpha1.GateOpen {
		t.open++
		t.oldest = max(t.oldest, now.Sub(gate.At.Time))
		return
	}
	t.closed++
	if s.differs {
		t.differ++
	}
	if s.blind != "" {
		t.unknown[s.blind]++
	}
}

// tallies by the name of a kind.
func (c collector) tallies() map[string]*tally {
	out := map[string]*tally{}
	for _, i := range c.kinds() {
		if !i.Kind.ManagementPolicies && systems.For(i.GVK) == nil {
			continue
		}
		t := out[i.GVK.Kind]
		if t == nil {
			t = &tally{unknown: map[gating.UnknownDrift]int{gating.UnknownNothingComparable: 0, gating.UnknownGoneUnseen: 0, gating.UnknownNotLooking: 0}}
			out[i.GVK.Kind] = t
		}
		for _, o := range c.list(i.GVK) {
			t.add(o, c.look(o), c.now())
		}
	}
	return out
}

// Collect them, for each kind that has gates.
func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
	}
	for kind, t := range c.tallies() {
		gauge(driftDesc, float64(t.differ), kind)
		gauge(oldestDesc, t.oldest.Seconds(), kind)
		gauge(gatesDesc, float64(t.open), kind, "open")
		gauge(gatesDesc, float64(t.closed), kind, "closed")
		for why, n := range t.unknown {
			gauge(unknownDesc, float64(n), kind, string(why))
		}
	}
}
