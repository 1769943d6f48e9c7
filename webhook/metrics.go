package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission"
)

var (
	decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kausality_decisions_total", Help: "Decisions about requests.",
	}, []string{"kind", "class", "verdict", "reason", "mode"})
	latency = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "kausality_decision_seconds", Help: "Time to decide one request, in seconds.",
		Buckets: prometheus.ExponentialBuckets(50e-6, 2, 16),
	})
	liveReads = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kausality_live_reads_total", Help: "Reads of parents past the cache.",
	})
	droppedReports = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kausality_dropped_reports_total", Help: "Reports lost to a full queue.",
	})
	certificateExpiry = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kausality_certificate_expiry_timestamp_seconds", Help: "When the serving certificate of the webhook expires, in seconds since the epoch.",
	})
)

func init() { //nolint:gochecknoinits // controller-runtime's registry is filled this way.
	metrics.Registry.MustRegister(decisions, latency, liveReads, droppedReports, certificateExpiry)
}

func observe(kind string, d admission.Decision, resp ctrl.Response, took time.Duration) {
	verdict := "allowed"
	if !resp.Allowed {
		verdict = "denied"
	}
	decisions.WithLabelValues(kind, string(d.Class), verdict, string(d.Reason), string(d.Mode)).Inc()
	latency.Observe(took.Seconds())
}
