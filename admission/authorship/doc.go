// Package authorship determines who made a revision of a Composition or Function, from what
// these objects show (KR-07-11). It reads nothing: webhook and function pass the objects.
package authorship
