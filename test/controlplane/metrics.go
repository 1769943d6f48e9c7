package controlplane

import (
	"context"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics of a process, by their names.
type Metrics map[string]*dto.MetricFamily

// ReadMetrics that a process serves at a URL, in Prometheus' text format.
func ReadMetrics(ctx context.Context, url string) (Metrics, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // The body was only read.

	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))

		return nil, fmt.Errorf("%s answers %s: %s", url, resp.Status, text)
	}

	m, err := ParseMetrics(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", url, err)
	}

	return m, nil
}

// ParseMetrics in Prometheus' text format.
func ParseMetrics(r io.Reader) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)

	return parser.TextToMetricFamilies(r)
}

// Sum of the counters and gauges of a name whose label has a value, or of all without a label; false where there are none.
func (m Metrics) Sum(name, label, value string) (sum float64, found bool) {
	for _, one := range m[name].GetMetric() {
		is := label == ""
		for _, l := range one.GetLabel() {
			is = is || l.GetName() == label && l.GetValue() == value
		}

		if is {
			sum, found = sum+one.GetCounter().GetValue()+one.GetGauge().GetValue(), true
		}
	}

	return sum, found
}

// Reconciled is how often a controller of controller-runtime has reconciled objects; an error while it has others to reconcile.
func (m Metrics) Reconciled(controller string) (times float64, err error) {
	times, _ = m.Sum("controller_runtime_reconcile_total", "controller", controller)
	waiting, _ := m.Sum("workqueue_depth", "name", controller)
	active, _ := m.Sum("controller_runtime_active_workers", "controller", controller)

	if waiting > 0 || active > 0 {
		return times, fmt.Errorf("%s has %v objects to reconcile, and reconciles %v", controller, waiting, active)
	}

	return times, nil
}
