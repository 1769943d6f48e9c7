package drift

import (
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/telemetry"
)

var (
	queueLength   = telemetry.NewGauge("kausality_report_queue_length").WithLabelValues()
	dropped       = telemetry.NewCounter("kausality_dropped_reports_total").WithLabelValues()
	approvalsUsed = telemetry.NewCounter("kausality_approvals_used_total")
	driftsOpen    = telemetry.NewGauge("kausality_drifts_open")
)

// Approved counts a change that an approval allowed.
func Approved(r v1alpha1.Relation) { approvalsUsed.WithLabelValues(string(r)).Inc() }

// countOpen sets the number of open Drifts, by relation.
func countOpen(list *v1alpha1.DriftList) {
	count := map[v1alpha1.Relation]float64{v1alpha1.RelationControllerChild: 0, v1alpha1.RelationExternal: 0}
	for i := range list.Items {
		if list.Items[i].Status.Phase == v1alpha1.DriftDetected {
			count[list.Items[i].Spec.Relation]++
		}
	}
	for relation, n := range count {
		driftsOpen.WithLabelValues(string(relation)).Set(n)
	}
}
