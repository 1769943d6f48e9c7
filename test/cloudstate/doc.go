// Package cloudstate derives the state of the databases of the test cloud from its log, so that a judge knows each field that a write changes.
package cloudstate
