// Package settings decides which Kausality policy holds for an object and what
// it says: the mode, what other actors may do, how the gate behaves, and by
// which conditions a kind counts as initialized.
//
// It flattens the policies into Scopes, ordered from the most specific to the
// least (spec 5): the first that matches an object holds for it. The webhook
// configuration is made from the same list, so that what the API server asks
// about and what is decided about cannot part.
//
// It knows nothing of annotations and of the installation's defaults: those are
// put around it by package admission.
package settings
