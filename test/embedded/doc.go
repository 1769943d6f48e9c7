// Package embedded plays the example of an API server with Kausality within (docs/library.md).
package embedded
