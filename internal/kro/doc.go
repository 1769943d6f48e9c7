// Package kro derives AllowancePolicies from ResourceGraphDefinitions (KR-18-09).
//
// A graph of kro has an expression in each field of a resource that depends on something, so that it contains which fields of an
// instance may change which fields of its resources. Expressions are parsed by kro's own packages. What cannot be analysed is
// returned as such, and no rule is made for it: nothing is allowed by guess.
package kro
