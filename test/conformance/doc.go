// Package conformance runs scenarios, written as YAML, against an
// implementation of Kausality on a real API server: who writes what, and what
// becomes of it. README.md beside it describes the format and how to run the
// scenarios against another implementation.
//
// It decides nothing by itself. It knows of the implementation only what the
// specification makes public: verdicts, messages, annotations, Drift objects,
// DriftReports and audit annotations. It imports nothing of the product.
//
// Load reads a Suite strictly: a field it does not know, a name that nothing
// defines and a scenario that checks nothing are errors. Runner.Run plays one
// scenario in a Namespace of its own and returns what did not come as the
// scenario says, so that scenarios run in parallel and a test can see the runner
// fail. It never sleeps: what takes time is asked for again and again until it
// holds or its time is over.
package conformance
