package decider

import (
	"time"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

var (
	decisions = telemetry.NewCounter("kausality_decisions_total")
	latency   = telemetry.NewHistogram("kausality_decision_seconds").WithLabelValues()
	liveReads = telemetry.NewCounter("kausality_live_reads_total").WithLabelValues()
)

// observe one decision. kind is one that the cluster has (KR-13-07); took is the
// time since the adapter began to read the request.
func observe(kind string, d admission.Decision, passes bool, took time.Duration) {
	verdict := "allowed"
	if !passes {
		verdict = "denied"
	}
	decisions.WithLabelValues(kind, string(d.Class), verdict, string(d.Reason), string(d.Mode)).Inc()
	latency.Observe(took.Seconds())
}
