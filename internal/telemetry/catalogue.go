package telemetry

import (
	_ "embed" // of the catalogue
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"
)

// Metric of the catalogue.
type Metric struct {
	Name string
	// Kind is counter, gauge or histogram.
	Kind string
	// Labels in their order; none may be unbounded.
	Labels []string
	// Help is one sentence.
	Help string
	// By is the components that have it.
	By string
	// Buckets of a histogram, in seconds.
	Buckets []float64
}

//go:embed catalogue.yaml
var catalogue []byte

// Catalogue of all metrics, by name.
var Catalogue = parse(catalogue)

// parse a catalogue. It panics for an invalid one, which is an error of the program.
func parse(raw []byte) []Metric {
	var out []Metric
	if err := yaml.UnmarshalStrict(raw, &out); err != nil {
		panic(fmt.Sprintf("cannot parse the catalogue of metrics: %v", err))
	}
	return out
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
