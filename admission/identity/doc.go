// Package identity names things: what a kind is to decisions, how an object
// appears in messages and reports, which id a difference has, and the command
// that approves it. It is the ground that admission, gating and settling share,
// and decides nothing itself.
package identity
