// Package certs keeps the webhook's serving certificate valid for ever, with no
// call failing while it is renewed. It is a pure state machine: Step takes what
// is stored and the time, and returns what is to be stored; package guard does
// the storing.
//
// What makes it safe is the order. A new authority is in the bundle that the API
// server trusts for a while (settle) before anything is signed by it, and an old
// one stays there for a while (settle, again) after nothing is. So it does not
// matter that API servers and replicas of the webhook learn of each step late
// and at different times, as long as it is sooner than that.
//
// The key of an authority is stored, since it signs more than one serving
// certificate, in a Secret that only the policy controller reads.
package certs
