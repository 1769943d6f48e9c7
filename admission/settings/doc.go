// Package settings decides which Kausality policy holds for an object, and what
// the policy declares: the mode, what other actors may do, how the gate behaves, and by
// which conditions a kind counts as initialized.
//
// It flattens the policies into Scopes, ordered from the most specific to the
// least (KR-05-21): the first that matches an object holds for it. The webhook
// configuration is made from the same list, so that the API server calls the
// webhook for exactly the objects that are decided about.
//
// It knows nothing of annotations and of the installation's defaults: those are
// put around it by package admission.
package settings
