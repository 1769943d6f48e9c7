// Package adversary plays users with few rights against a running story: a tenant
// who may edit composites and managed resources (and impersonate the ServiceAccounts
// of the Namespace), one with the roles that Crossplane's RBAC manager makes for editors,
// one with the same rights in another Namespace, one who may write
// the statuses of one kind, one who may delete Drifts, and a client that reaches the port
// of the webhook. What they do is random, by seed. Afterwards, versions in etcd, the audit
// log and the log of the cloud are judged: see judge_test.go for the invariants.
//
// In a silent seed none of them states an intent: nothing may be written to the cloud.
// In a loud one they do, and each write has to carry the name of its user.
package adversary
