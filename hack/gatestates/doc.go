// Package gatestates has the machine of the gate as a table: the states of a managed resource, and the transitions between
// them. hack/gatediagram draws it, and TestGateTransitions of package admission fails where it differs from the code.
package gatestates
