package admission

import (
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Blindness is why external drift of a managed resource is unknown, or a part of
// it; empty where it is not.
type Blindness string

const (
	// BlindNothing: forProvider and atProvider have no field in common.
	BlindNothing Blindness = "NothingComparable"
	// BlindGone: policies of Observe and LateInitialize alone, under which a
	// provider reports success where the external resource does not exist (facts 11).
	BlindGone Blindness = "GoneUnseen"
	// BlindSystem: an external system that was told not to look.
	BlindSystem Blindness = "NotLooking"
)

// Why in words, as a clause.
func (b Blindness) Why() string {
	switch b {
	case BlindNothing:
		return "the provider reports nothing that can be compared"
	case BlindGone:
		return "with managementPolicies [Observe, LateInitialize] the provider does not tell when the external resource is gone"
	case BlindSystem:
		return "the system that applies it does not look for it"
	}
	return ""
}

// Blind tells why external drift of a managed resource is unknown. known, that
// there is something to compare, and gone are as Comparable and Gone in Gating.
func Blind(mr *parent.State, known, gone bool) Blindness {
	p := mr.ManagementPolicies
	switch {
	case gone:
		return ""
	case !known:
		return BlindNothing
	case mask.Same(p, []string{string(v1alpha1.VerbObserve), string(v1alpha1.VerbLateInitialize)}):
		return BlindGone
	}
	return ""
}
