// Package telemetry is the catalogue of Kausality's metrics: name, kind, labels
// and meaning of each stand here and nowhere else. The processes make their
// metrics by name from it, the reference in the documentation is written from
// it, and a test holds dashboard, alerts and documentation to it.
//
// Everything is registered with controller-runtime's registry, which the
// processes serve.
//
// Tracing to an OpenTelemetry collector is set up here, too; without an endpoint
// it is off and costs nothing.
package telemetry
