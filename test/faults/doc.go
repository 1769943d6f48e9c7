// Package faults plays the chapters of the story while a process, its network or its
// certificate fails, and judges what happened: from the cloud's request log, that no
// external write was made that no user requested, and from the objects, that nothing
// was lost and that what is requested is done once the fault has ended, without any
// repair. docs/reliability.md has what each fault did.
//
// A run is a Namespace with a composite. Its dimensions are the component, the fault,
// the failure policy of the webhook, the mode and the chapter; rows has all pairs of
// their values (pairs_test.go). Rows of one component and fault share an injection.
//
// Kausality is installed by its chart, with the policy controller; webhook, gate,
// policy controller, provider and Crossplane each reach the API server through a line
// of their own (line_test.go).
package faults
