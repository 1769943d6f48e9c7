package drift

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

var (
	queueLength    = telemetry.NewGauge("kausality_report_queue_length").WithLabelValues()
	dropped        = telemetry.NewCounter("kausality_dropped_reports_total").WithLabelValues()
	approvalsUsed  = telemetry.NewCounter("kausality_approvals_used_total")
	brokenGlass    = telemetry.NewCounter("kausality_broken_glass_total")
	driftsOpen     = telemetry.NewGauge("kausality_drifts_open")
	deliveries     = telemetry.NewCounter("kausality_report_deliveries_total")
	reportsPending = telemetry.NewGauge("kausality_reports_pending")
	oldestPending  = telemetry.NewGauge("kausality_report_oldest_pending_seconds")
)

const (
	// maxNamespaces that the metric of open Drifts has; the others are counted together.
	maxNamespaces = 100
	// otherNamespaces are counted as one of that name.
	otherNamespaces = "other"
	// unknownCause of a Drift, and causeExternal of a Drift of an external resource that was changed outside.
	unknownCause  = "Unknown"
	causeExternal = "External"
)

// Approved counts a change that an approval allowed.
func Approved(r v1alpha1.Relation) { approvalsUsed.WithLabelValues(string(r)).Inc() }

// counted are the labels of the metric of open Drifts.
type counted struct {
	relation         v1alpha1.Relation
	namespace, cause string
}

// countOpen sets the number of open Drifts, by relation, Namespace and kind of cause (KR-10-19).
func countOpen(list *v1alpha1.DriftList) {
	now := openBy(list)
	open.Lock()
	defer open.Unlock()
	for by := range open.shown { // a reset would show none for a moment
		if now[by] == 0 {
			driftsOpen.DeleteLabelValues(string(by.relation), by.namespace, by.cause)
		}
	}
	for by, n := range now {
		driftsOpen.WithLabelValues(string(by.relation), by.namespace, by.cause).Set(float64(n))
	}
	open.shown = now
}

// open is what the metric of open Drifts shows.
var open struct {
	sync.Mutex
	shown map[counted]int
}

// openBy counts open Drifts. Of the Namespaces, those with the most are named.
func openBy(list *v1alpha1.DriftList) map[counted]int {
	namespaces := map[string]int{}
	for i := range list.Items {
		if d := &list.Items[i]; d.Status.Phase == v1alpha1.DriftDetected {
			namespaces[d.Namespace]++
		}
	}
	names := slices.SortedFunc(maps.Keys(namespaces), func(a, b string) int { return cmp.Or(namespaces[b]-namespaces[a], strings.Compare(a, b)) })
	named := map[string]bool{}
	for _, n := range names[:min(len(names), maxNamespaces)] {
		named[n] = true
	}
	out := map[counted]int{}
	for i := range list.Items {
		d := &list.Items[i]
		if d.Status.Phase != v1alpha1.DriftDetected {
			continue
		}
		by := counted{relation: d.Spec.Relation, namespace: otherNamespaces, cause: causeOf(&d.Spec)}
		if named[d.Namespace] {
			by.namespace = d.Namespace
		}
		out[by]++
	}
	return out
}

// causeOf a drift: the kind of its first cause.
func causeOf(d *v1alpha1.DriftSpec) string {
	switch {
	case len(d.Causes) > 0:
		return string(d.Causes[0].Kind)
	case d.Relation == v1alpha1.RelationExternal:
		return causeExternal
	}
	return unknownCause
}
