package gate

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

var (
	transitions = telemetry.NewCounter("kausality_gate_transitions_total")
	openFor     = telemetry.NewHistogram("kausality_gate_open_seconds")
	wakeups     = telemetry.NewCounter("kausality_gate_wakeups_total").WithLabelValues()
	repeated    = telemetry.NewCounter("kausality_gate_repeated_deletions_total").WithLabelValues()
	wouldHold   = telemetry.NewCounter("kausality_gate_would_hold_total")
	orphans     = telemetry.NewCounter("kausality_gate_orphans_total").WithLabelValues()
)

// observeOpening records how long a gate was open that closed for a reason.
func observeOpening(opened time.Time, reason string) {
	if !opened.IsZero() {
		openFor.WithLabelValues(reason).Observe(clock.Since(opened).Seconds())
	}
}

var (
	gatesDesc   = telemetry.Desc("kausality_gates")
	oldestDesc  = telemetry.Desc("kausality_gate_oldest_open_seconds")
	driftDesc   = telemetry.Desc("kausality_external_drift")
	unknownDesc = telemetry.Desc("kausality_external_drift_unknown")
)

// externalState is what is known of an object's external resources.
type externalState struct {
	differs bool
	// unknown is why differs is unknown, or a part of it; "" where it is known.
	unknown gating.UnknownDrift
}

// stateOf returns the state of an object of an external system, as a reconcile found it.
func stateOf(v external.View) externalState {
	out := externalState{differs: len(v.Difference) > 0}
	if !v.Known {
		out.unknown = gating.UnknownNotLooking
	}
	return out
}

// collector reports the states of the gates from the caches when metrics are
// scraped.
type collector struct {
	kinds func() []kinds.Info
	list  func(schema.GroupVersionKind) []*states.Object
	look  func(*states.Object) externalState
	now   func() time.Time
}

// newCollector of the objects that this process reconciles: each shard reports its own.
func newCollector(c *cluster.Cluster, ctl *Controller) collector {
	list := func(gvk schema.GroupVersionKind) []*states.Object {
		return slices.DeleteFunc(c.States.List(gvk), func(o *states.Object) bool { return !ctl.scope.ours(o.State.Ref) })
	}
	return collector{kinds: c.Kinds.All, list: list, now: clock.Now, look: func(o *states.Object) externalState {
		if systems.For(o.GroupVersionKind) != nil {
			return ctl.reporter.externalStates.of(withoutUID(o.State.Ref))
		}
		s := c.Settings(o.State.Ref, o.State.Labels)
		return externalState{differs: o.External.Gone || len(s.Relevant(o.External.Difference)) > 0, unknown: o.Blind()}
	}}
}

// Describe the metrics.
func (collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{gatesDesc, oldestDesc, driftDesc, unknownDesc} {
		out <- d
	}
}

// tally counts the gates of all kinds with the same name, which may be in several groups.
type tally struct {
	open, closed, differ int
	unknown              map[gating.UnknownDrift]int
	oldest               time.Duration
}

// add an object to the tally; one without a mask is not under a gate.
func (t *tally) add(o *states.Object, s externalState, now time.Time) {
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
	if s.unknown != "" {
		t.unknown[s.unknown]++
	}
}

// tallies by the name of the kind.
func (c collector) tallies() map[string]*tally {
	out := map[string]*tally{}
	for _, i := range c.kinds() {
		if !i.Kind.ManagementPolicies && systems.For(i.GVK) == nil {
			continue
		}
		t := out[i.GVK.Kind]
		if t == nil {
			t = &tally{unknown: map[gating.UnknownDrift]int{gating.UnknownNothingComparable: 0, gating.UnknownBeyondOutputs: 0,
				gating.UnknownGoneUnseen: 0, gating.UnknownNotLooking: 0}}
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
