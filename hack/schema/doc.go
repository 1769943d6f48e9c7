// Package schema writes JSON schemas of documents that other programs read, from their Go types and the comments of the
// fields. Tests alone import it.
package schema
