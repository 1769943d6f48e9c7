// Package documented types the commands of the documentation, in the order of its pages, on an installation of its own.
package documented
