// Package policystore keeps the policies of a cluster in force: it watches the
// five kinds that a process needs, compiles what changed outside of the request path, and publishes
// all of them as one allowance.Set, which is replaced as a whole. While the watches may be late, Live
// lists and compiles them for all who need them at once. It writes
// compile results and uses to the status of policies, claims rules of mode once
// and generation there (KR-05-51), and refuses policies that do not compile when
// they are written (KR-05-54).
//
// It decides nothing about requests: package allowance evaluates policies,
// package admission decides.
package policystore
