package gate

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var transitions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "kausality_gate_transitions_total", Help: "Transitions of gates by action and reason.",
}, []string{"action", "reason"})

var (
	wakeups = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kausality_gate_wakeups_total", Help: "Composites that were asked to reconcile because a change may let through what was refused.",
	})
	repeated = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kausality_gate_repeated_deletions_total", Help: "Deletions that were refused to a controller and repeated once they were allowed.",
	})
	orphans = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kausality_gate_orphans_total", Help: "External resources that were left behind because somebody asked for that.",
	})
)

func init() { //nolint:gochecknoinits // controller-runtime's registry is filled this way.
	metrics.Registry.MustRegister(transitions, wakeups, repeated, orphans)
}
