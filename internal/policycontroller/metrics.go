package policycontroller

import "github.com/kausality-io/function-kausality/internal/telemetry"

var (
	writes      = telemetry.NewCounter("kausality_controller_writes_total")
	policyGauge = telemetry.NewGauge("kausality_policies")
)
