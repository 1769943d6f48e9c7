// Package suggest finds the known name that an unknown one was probably meant to be. It
// decides nothing: an unknown name stays unknown.
package suggest
