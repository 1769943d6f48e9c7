package slack

import "github.com/kausality-io/function-kausality/internal/telemetry"

var (
	clicks    = telemetry.NewCounter("kausality_slack_clicks_total")
	waiting   = telemetry.NewGauge("kausality_slack_clicks_waiting").WithLabelValues()
	lag       = telemetry.NewGauge("kausality_slack_click_oldest_seconds").WithLabelValues()
	refusals  = telemetry.NewCounter("kausality_slack_refusals_total")
	received  = telemetry.NewCounter("kausality_slack_requests_total")
	connected = telemetry.NewGauge("kausality_slack_connected").WithLabelValues()
)
