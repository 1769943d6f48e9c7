// Package expression compiles the CEL expressions and regular expressions of
// policies, and evaluates them within a budget. Programs are shared by their
// text, in a cache that is bounded; compiling happens where policies are loaded,
// never in a request.
//
// The environment is that of Kubernetes (k8s.io/apiserver/pkg/cel), with the
// variables object, oldObject, request (user, groups, operation) and parent; those of
// ApprovalRules are change and resource. It
// knows one form more: has(m['key']) tests for a key of a map, which plain CEL
// writes 'key' in m.
//
// It decides nothing: an expression that cannot be evaluated is an error, and
// what follows from that is up to the caller.
package expression
