// Package lists has what package slices of the standard library has not.
package lists
