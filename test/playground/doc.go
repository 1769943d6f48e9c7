// Package playground is a control plane to try Kausality on: Crossplane, a provider with a small simulated cloud, Kausality as its
// chart installs it, in mode enforce and with approver RBAC, and users who may do different things. make demo KEEP=1 leaves it
// running; docs/try.md leads through it.
package playground
