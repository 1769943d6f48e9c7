package telemetry

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Kind of a metric.
type Kind string

// The kinds of metrics.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric of the catalogue.
type Metric struct {
	Name string
	Kind Kind
	// Labels in their order; none may be unbounded.
	Labels []string
	// Help is one sentence.
	Help string
	// By is the components that have it.
	By string
	// Buckets of a histogram, in seconds.
	Buckets []float64
}

const (
	byWebhook    = "webhook"
	byGate       = "gate"
	byBoth       = "webhook, gate"
	byController = "controller"
	byHistory    = "history"
	bySlack      = "slack"
	byReports    = "webhook, gate, slack"
)

// decisionBuckets, in seconds, are dense around the goals of a decision: 300 µs in the median, 1 ms at the 99th
// percentile.
var decisionBuckets = []float64{
	50e-6, 100e-6, 150e-6, 200e-6, 250e-6, 300e-6, 400e-6, 600e-6, 800e-6, 1e-3, 1.25e-3, 1.6e-3, 2.5e-3, 5e-3,
	10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2,
}

// Catalogue of all metrics, by name.
var Catalogue = []Metric{
	{Name: "kausality_approvals_used_total", Kind: Counter, Labels: []string{"relation"}, By: byBoth,
		Help: "Changes that an approval allowed, of child objects and of external resources."},
	{Name: "kausality_broken_glass_total", Kind: Counter, Labels: []string{"relation"}, By: byBoth,
		Help: "Changes that one user approved alone, by break glass, of child objects and of external resources."},
	{Name: "kausality_certificate_expiry_timestamp_seconds", Kind: Gauge, By: byWebhook,
		Help: "When the serving certificate of the webhook expires, in seconds since the epoch."},
	{Name: "kausality_clock_skew_seconds", Kind: Gauge, By: byBoth,
		Help: "How far the clock of the API server is ahead of this machine's. Decisions use the former."},
	{Name: "kausality_controller_writes_total", Kind: Counter, Labels: []string{"kind"}, By: byController,
		Help: "Writes of the policy controller; none while nothing differs from the policies."},
	{Name: "kausality_decision_seconds", Kind: Histogram, By: byWebhook,
		Help: "Time to decide one request.", Buckets: decisionBuckets},
	{Name: "kausality_decisions_total", Kind: Counter, Labels: []string{"kind", "class", "verdict", "reason", "mode"}, By: byWebhook,
		Help: "Decisions about requests."},
	{Name: "kausality_drifts_open", Kind: Gauge, Labels: []string{"relation", "namespace", "cause"}, By: byWebhook,
		Help: "Drifts that are not resolved, of child objects and of external resources; on the leader. Of the Namespaces beyond the 100 " +
			"with the most Drifts namespace is other."},
	{Name: "kausality_dropped_reports_total", Kind: Counter, By: byBoth,
		Help: "Reports lost to a full queue."},
	{Name: "kausality_external_drift", Kind: Gauge, Labels: []string{"kind"}, By: byGate,
		Help: "Objects behind a closed gate whose external resource differs from the desired state."},
	{Name: "kausality_external_drift_unknown", Kind: Gauge, Labels: []string{"kind", "reason"}, By: byGate,
		Help: "Objects behind a closed gate whose external drift is unknown: NothingComparable, " +
			"BeyondOutputs if outputs or a checksum alone can be compared, " +
			"GoneUnseen if a missing external resource would not be noticed, NotLooking if the external system is configured not to compare."},
	{Name: "kausality_gate_oldest_open_seconds", Kind: Gauge, Labels: []string{"kind"}, By: byGate,
		Help: "Age of the longest open gate, in seconds."},
	{Name: "kausality_gate_open_seconds", Kind: Histogram, Labels: []string{"reason"}, By: byGate,
		Help: "Time that gates were open, by the reason of closing.", Buckets: prometheus.ExponentialBuckets(1, 2, 14)},
	{Name: "kausality_gate_orphans_total", Kind: Counter, By: byGate,
		Help: "External resources that were orphaned on request."},
	{Name: "kausality_gate_repeated_deletions_total", Kind: Counter, By: byGate,
		Help: "Deletions that were refused to a controller and repeated when they became allowed."},
	{Name: "kausality_gate_transitions_total", Kind: Counter, Labels: []string{"action", "reason"}, By: byGate,
		Help: "Transitions of gates."},
	{Name: "kausality_gate_wakeups_total", Kind: Counter, By: byGate,
		Help: "Composites whose reconciliation was requested because a refused change may be allowed now."},
	{Name: "kausality_gate_would_hold_total", Kind: Counter, Labels: []string{"kind"}, By: byGate,
		Help: "Differences of external resources in mode log that mode enforce would hold until they are approved; derived from objects and their status."},
	{Name: "kausality_gates", Kind: Gauge, Labels: []string{"kind", "state"}, By: byGate,
		Help: "Objects under a gate, open or closed: managed resources, and those of external systems."},
	{Name: "kausality_history_clusters", Kind: Gauge, By: byHistory,
		Help: "Clusters whose records are stored."},
	{Name: "kausality_history_failures_total", Kind: Counter, Labels: []string{"operation"}, By: byHistory,
		Help: "Requests and deletions that failed since the store or the API server did not answer."},
	{Name: "kausality_history_newest_timestamp_seconds", Kind: Gauge, By: byHistory,
		Help: "When a record was stored last, in seconds since the epoch."},
	{Name: "kausality_history_records_total", Kind: Counter, Labels: []string{"result"}, By: byHistory,
		Help: "Records received: stored, known already, kept for a later version, or refused."},
	{Name: "kausality_history_request_seconds", Kind: Histogram, Labels: []string{"operation"}, By: byHistory,
		Help: "Time to answer a request.", Buckets: prometheus.ExponentialBuckets(1e-3, 2, 14)},
	{Name: "kausality_history_shared_names", Kind: Gauge, By: byHistory,
		Help: "Names that several clusters have; give each its own --cluster-name."},
	{Name: "kausality_history_unread", Kind: Gauge, By: byHistory,
		Help: "Records of versions that this release cannot read; they are stored by one that can."},
	{Name: "kausality_live_reads_total", Kind: Counter, By: byWebhook,
		Help: "Reads of parents past the cache."},
	{Name: "kausality_policies", Kind: Gauge, Labels: []string{"policy", "ready"}, By: byController,
		Help: "Kausality policies, 1 for each."},
	{Name: "kausality_record_deliveries_total", Kind: Counter, Labels: []string{"sink", "result"}, By: byBoth,
		Help: "Attempts to deliver a batch of records: delivered, refused by the sink, or failed."},
	{Name: "kausality_record_oldest_pending_seconds", Kind: Gauge, Labels: []string{"sink"}, By: byBoth,
		Help: "Age of the oldest record that is not delivered, in seconds."},
	{Name: "kausality_record_queue_length", Kind: Gauge, By: byBoth,
		Help: "Occurrences that wait to be written to the spool of records."},
	{Name: "kausality_record_spool_bytes", Kind: Gauge, By: byBoth,
		Help: "Size of the spool of records on disk, in bytes."},
	{Name: "kausality_records_lost_total", Kind: Counter, Labels: []string{"sink", "reason"}, By: byBoth,
		Help: "Records that are lost: SpoolFull and Damaged for one sink, QueueFull and Invalid for all of them."},
	{Name: "kausality_records_pending", Kind: Gauge, Labels: []string{"sink"}, By: byBoth,
		Help: "Records in the spool that are not delivered."},
	{Name: "kausality_records_set_aside_total", Kind: Counter, Labels: []string{"sink"}, By: byBoth,
		Help: "Records that a sink refuses for ever, which were set aside in a file."},
	{Name: "kausality_records_spooled_total", Kind: Counter, Labels: []string{"type"}, By: byBoth,
		Help: "Records that were written to the spool."},
	{Name: "kausality_report_deliveries_total", Kind: Counter, Labels: []string{"receiver", "result"}, By: byReports,
		Help: "Attempts to deliver a DriftReport: delivered, refused by the receiver, or failed; on the leader."},
	{Name: "kausality_report_oldest_pending_seconds", Kind: Gauge, Labels: []string{"receiver"}, By: byReports,
		Help: "Age of the oldest occurrence whose report is not delivered, in seconds; on the leader."},
	{Name: "kausality_report_queue_length", Kind: Gauge, By: byBoth,
		Help: "Reports that wait to be recorded."},
	{Name: "kausality_reports_pending", Kind: Gauge, Labels: []string{"receiver"}, By: byReports,
		Help: "Drifts whose reports are not delivered; on the leader."},
	{Name: "kausality_rollouts", Kind: Gauge, Labels: []string{"phase"}, By: byWebhook,
		Help: "Rollouts by their phase; on the leader."},
	{Name: "kausality_slack_clicks_total", Kind: Counter, Labels: []string{"action", "result"}, By: bySlack,
		Help: "Clicks of users in Slack: decided, refused, failed, lost where they could not be stored, invalid where what is stored is none."},
	{Name: "kausality_slack_clicks_waiting", Kind: Gauge, By: bySlack,
		Help: "Clicks that are stored and not worked off; on the leader."},
	{Name: "kausality_slack_connected", Kind: Gauge, By: bySlack,
		Help: "1 while the replica receives clicks from Slack, else 0."},
	{Name: "kausality_slack_refusals_total", Kind: Counter, Labels: []string{"token", "code"}, By: bySlack,
		Help: "Attempts that Slack refused until the app or one of its tokens, bot or app, is changed, by Slack's code, as token_revoked."},
	{Name: "kausality_watches_late", Kind: Gauge, By: byWebhook,
		Help: "1 while the heartbeat is late that comes over the watches, and parents and policies are read live."},
	{Name: "kausality_webhook_open_to_all_clients", Kind: Gauge, By: byWebhook,
		Help: "1 where the webhook answers clients without a certificate."},
}

// Lookup a metric of the catalogue. It panics for a name that is not in it, which is an error of the program.
func Lookup(name string) Metric {
	for _, m := range Catalogue {
		if m.Name == name {
			return m
		}
	}
	panic(fmt.Sprintf("metric %s is not in the catalogue", name))
}

func register[C prometheus.Collector](c C) C {
	metrics.Registry.MustRegister(c)
	return c
}

// NewCounter of the catalogue, registered.
func NewCounter(name string) *prometheus.CounterVec {
	m := Lookup(name)
	return register(prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels))
}

// NewGauge of the catalogue, registered.
func NewGauge(name string) *prometheus.GaugeVec {
	m := Lookup(name)
	return register(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.Labels))
}

// NewHistogram of the catalogue, registered.
func NewHistogram(name string) *prometheus.HistogramVec {
	m := Lookup(name)
	return register(prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.Buckets}, m.Labels))
}

// Desc of a metric that a custom collector reports.
func Desc(name string) *prometheus.Desc {
	m := Lookup(name)
	return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
}
