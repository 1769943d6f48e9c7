// Package offline derives from one RunFunctionRequest what a webhook would have
// recorded about a composite (KR-09-09, KR-09-10): the hop of its last intent,
// whether that intent settled, which approvals are used, and which fields the
// intent changed.
//
// The inputs are the observed composite with its managedFields and status
// (Composite), and the observed composed resources with the annotations that the
// function stamped on them before (Resource). A composition function can write to
// composed resources only, so that these annotations are its only memory:
//
//	kausality.io/trace             hops of the composite, with the first sight of each intent
//	kausality.io/settled-intent    the last intent that settled (Note)
//	kausality.io/settled-fields    the fields that policies select, as of then (Lookback)
//	kausality.io/used-approvals    contents of approvals that are used
//
// The derived facts are annotations of Composite.State, in the form in which a
// webhook writes them to the composite, so that the core reads both the same way.
// Where a webhook keeps them, they are taken as they are.
//
// Nothing here decides: whether a composite has settled is for package settling,
// what an intent is granted for package allowance.
package offline
