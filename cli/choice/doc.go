// Package choice has flags with a fixed set of values. What help lists, what a shell completes and what is accepted are
// one list, so that no value is advertised that is refused.
package choice
