package gate

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var transitions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "kausality_gate_transitions_total", Help: "Transitions of gates by action and reason.",
}, []string{"action", "reason"})

func init() { //nolint:gochecknoinits // controller-runtime's registry is filled this way.
	metrics.Registry.MustRegister(transitions)
}
