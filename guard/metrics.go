package guard

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	writes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kausality_controller_writes_total", Help: "Writes of the policy controller by kind; none while everything is as it should be.",
	}, []string{"kind"})
	policies = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kausality_policies", Help: "Kausality policies; 1 for each.",
	}, []string{"policy", "ready"})
)

func init() { //nolint:gochecknoinits // controller-runtime's registry is filled this way.
	metrics.Registry.MustRegister(writes, policies)
}
