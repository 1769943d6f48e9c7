// Package external compares what a managed resource asks for with what its
// provider last saw: spec.forProvider with status.atProvider (spec 8, "External
// drift"). It calls nothing; what the provider reports is all it knows.
package external
