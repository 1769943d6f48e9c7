// Package openings judges, from the versions that a managed resource had, what its gate was opened for.
package openings
