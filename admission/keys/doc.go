// Package keys finds keys of annotations of Kausality's domain that Kausality does not read.
package keys
