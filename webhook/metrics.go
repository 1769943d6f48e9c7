package webhook

import (
	"time"

	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/telemetry"
)

var (
	decisions = telemetry.NewCounter("kausality_decisions_total")
	latency   = telemetry.NewHistogram("kausality_decision_seconds").WithLabelValues()
	liveReads = telemetry.NewCounter("kausality_live_reads_total").WithLabelValues()
	openToAll = telemetry.NewGauge("kausality_webhook_open_to_all_clients").WithLabelValues()
)

// observe one decision. kind is one that the cluster has (KR-13-07); took is the
// time since the review was read.
func observe(kind string, d admission.Decision, resp ctrl.Response, took time.Duration) {
	verdict := "allowed"
	if !resp.Allowed {
		verdict = "denied"
	}
	decisions.WithLabelValues(kind, string(d.Class), verdict, string(d.Reason), string(d.Mode)).Inc()
	latency.Observe(took.Seconds())
}
