// Package preview finds out what a Composition would change on live composites
// before it is installed.
//
// The pipeline is run by Crossplane's own `crossplane render`, a program, on each
// composite with its composed resources as they are in the cluster, so that no
// second composition engine is needed here. The desired resources are merged into the
// observed ones as Crossplane's server-side apply would (ssa.Applied), and each change is
// decided as the webhook would decide it (inspect). Kausality's own steps are left
// out: they compose nothing, and would hold what is to be shown.
//
// Nothing is written to the cluster.
package preview
