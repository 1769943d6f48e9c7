// Package telemetry is the catalogue of Kausality's metrics: name, kind, labels and meaning of each are
// defined in catalogue.yaml and nowhere else. The processes create their metrics from it by name, the reference in the
// documentation is generated from it, and a test compares dashboard, alerts and documentation with it.
//
// Everything is registered with controller-runtime's registry, which the processes serve. That also has the
// metrics of controllers and their queues (controller_runtime_*, workqueue_*).
//
// Tracing to an OpenTelemetry collector is set up here, too. Without an endpoint it is off.
package telemetry
