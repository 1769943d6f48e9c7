// Package composed tests Kausality where graphs of the real kro and compositions of the real Crossplane are made of each other: an instance
// that a composite composes, and a composite that a graph has as a resource, with a provider and the gate behind it. It has what becomes of
// external resources where instances, graphs, their CRDs and kro are deleted.
package composed
