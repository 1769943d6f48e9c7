// Package serving is the HTTP side of the admission webhook: its server, the certificate it serves, and
// the end of a replica without a lost review. docs/design/0007-serving.md has the reasons.
//
// It knows nothing of what is reviewed; package webhook has the handlers.
package serving
