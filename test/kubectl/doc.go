// Package kubectl drives kubectl-kausality in a terminal, on a real control plane
// with Crossplane, providers, webhook, gate and function, and compares what it
// prints with testdata. -update writes testdata.
package kubectl
