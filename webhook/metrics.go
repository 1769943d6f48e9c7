package webhook

import (
	"time"

	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/telemetry"
)

var (
	decisions         = telemetry.NewCounter("kausality_decisions_total")
	latency           = telemetry.NewHistogram("kausality_decision_seconds").WithLabelValues()
	liveReads         = telemetry.NewCounter("kausality_live_reads_total").WithLabelValues()
	driftsOpen        = telemetry.NewGauge("kausality_drifts_open")
	certificateExpiry = telemetry.NewGauge("kausality_certificate_expiry_timestamp_seconds") // no sample, not 0, where nothing is served
)

func observe(kind string, d admission.Decision, resp ctrl.Response, took time.Duration) {
	verdict := "allowed"
	if !resp.Allowed {
		verdict = "denied"
	}
	decisions.WithLabelValues(kind, string(d.Class), verdict, string(d.Reason), string(d.Mode)).Inc()
	latency.Observe(took.Seconds())
}

// standing drifts by relation.
func standing(list *v1alpha1.DriftList) {
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
