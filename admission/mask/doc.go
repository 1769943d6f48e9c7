// Package mask computes spec.managementPolicies of a managed resource from what
// its author wrote and the verbs that are let through. It only ever removes
// verbs, and only ever returns a set that Crossplane's runtime accepts (KR-08-01,
// KR-08-02). The annotations that hold the author's policies and the state of the
// gate are read and written here.
package mask
