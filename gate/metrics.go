package gate

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
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

// collector reports how the gates stand, from the watches, when it is asked.
type collector struct {
	cluster *cluster.Cluster
	now     func() time.Time
}

// Describe the metrics.
func (collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{gatesDesc, oldestDesc, driftDesc, unknownDesc} {
		out <- d
	}
}

// tally of one kind.
type tally struct {
	open, closed, differ, unknown int
	oldest                        time.Duration
}

func (t *tally) add(o *cluster.Object, difference bool, now time.Time) {
	if _, masked := o.Annotations[v1alpha1.AnnotationKeyManagementPolicies]; !masked {
		return
	}
	gate := mask.ParseGate(o.Annotations)
	if gate.State == v1alpha1.GateOpen {
		t.open++
		t.oldest = max(t.oldest, now.Sub(gate.At.Time))
		return
	}
	t.closed++
	switch {
	case difference || o.Gone:
		t.differ++
	case !o.Comparable:
		t.unknown++
	}
}

// Collect them, for each kind of managed resource.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, i := range c.cluster.Kinds.All() {
		if !i.Kind.ManagementPolicies {
			continue
		}
		t := tally{}
		for _, o := range c.cluster.States.List(i.GVK) {
			s := c.cluster.Settings(o.State.Ref, o.State.Labels)
			t.add(o, len(s.Relevant(o.External)) > 0, c.now())
		}
		for d, n := range map[*prometheus.Desc]float64{driftDesc: float64(t.differ), unknownDesc: float64(t.unknown), oldestDesc: t.oldest.Seconds()} {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, i.GVK.Kind)
		}
		out <- prometheus.MustNewConstMetric(gatesDesc, prometheus.GaugeValue, float64(t.open), i.GVK.Kind, "open")
		out <- prometheus.MustNewConstMetric(gatesDesc, prometheus.GaugeValue, float64(t.closed), i.GVK.Kind, "closed")
	}
}
