// Package mask computes spec.managementPolicies of a managed resource from what
// its author wrote and the verbs that are let through. It only ever takes verbs
// away, and only ever yields a set that Crossplane's runtime accepts (spec 8,
// facts 11). The annotations that hold the author's policies and the state of the
// gate are read and written here.
package mask
