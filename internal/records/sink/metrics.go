package sink

import "github.com/kausality-io/function-kausality/internal/telemetry"

var (
	deliveries = telemetry.NewCounter("kausality_record_deliveries_total")
	setAside   = telemetry.NewCounter("kausality_records_set_aside_total")
	pending    = telemetry.NewGauge("kausality_records_pending")
	oldest     = telemetry.NewGauge("kausality_record_oldest_pending_seconds")
)

// Results of attempts.
const (
	resultDelivered = "delivered"
	resultRefused   = "refused"
	resultFailed    = "failed"
)
