package drift

import (
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/telemetry"
)

var (
	queued        = telemetry.NewGauge("kausality_report_queue_length").WithLabelValues()
	dropped       = telemetry.NewCounter("kausality_dropped_reports_total").WithLabelValues()
	approvalsUsed = telemetry.NewCounter("kausality_approvals_used_total")
)

// Approved counts a change that an approval let through.
func Approved(r v1alpha1.Relation) { approvalsUsed.WithLabelValues(string(r)).Inc() }
