// Package settling decides whether a parent reached its last intent, from the
// state of the parent and its children: the latch that ends the time in which
// changes of its children are expected. It also decides what became of a pending
// claim, from the state of the child that it was taken for.
//
// It reads no clock and no cluster: the caller observes, and keeps what the
// latch needs over time.
package settling
