// Package conformance runs scenarios, written as YAML, against an
// implementation of Kausality on a real API server: which user writes what, and
// how the request is answered. README.md describes the format and how to run the
// scenarios against another implementation.
//
// It decides nothing itself. It uses only what docs/specification.md makes public:
// verdicts, messages, annotations, Drift objects, DriftReports and audit
// annotations. It imports nothing of the product.
//
// Load reads a Suite strictly: an unknown field, an undefined name and a
// scenario that checks nothing are errors. Runner.Run runs one scenario in its own
// Namespace and returns the expectations that were not met, so that scenarios run
// in parallel and a test can see the runner fail. It never sleeps: what takes time
// is polled until it is as expected or its time is over.
package conformance
