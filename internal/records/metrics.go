package records

import (
	"github.com/kausality-io/function-kausality/internal/records/spool"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

var (
	lost        = telemetry.NewCounter("kausality_records_lost_total")
	spooled     = telemetry.NewCounter("kausality_records_spooled_total")
	queueLength = telemetry.NewGauge("kausality_record_queue_length").WithLabelValues()
	spoolBytes  = telemetry.NewGauge("kausality_record_spool_bytes").WithLabelValues()
)

// Reasons of losses before the spool.
const (
	lossQueue   = "QueueFull"
	lossInvalid = "Invalid"
)

// Lost counts records that the spool lost.
func Lost(sink string, n uint64, why spool.Loss) {
	lost.WithLabelValues(sink, string(why)).Add(float64(n))
}
