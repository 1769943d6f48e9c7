package hosted

import "github.com/kausality-io/function-kausality/internal/telemetry"

var (
	logins    = telemetry.NewCounter("kausality_page_logins_total")
	refreshes = telemetry.NewCounter("kausality_page_refreshes_total")
	pages     = telemetry.NewGauge("kausality_page_users").WithLabelValues()
)
