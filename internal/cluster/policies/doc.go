// Package policies has the Kausality policies of a cluster, compiled, and what is
// declared on its Namespaces.
package policies
