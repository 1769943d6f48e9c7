package gating

import (
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// UnknownDrift is why external drift of a managed resource is unknown, or a part of
// it; empty where it is not.
type UnknownDrift string

const (
	// UnknownNothingComparable: forProvider and atProvider have no field in common.
	UnknownNothingComparable UnknownDrift = "NothingComparable"
	// UnknownGoneUnseen: policies of Observe and LateInitialize alone, under which a
	// provider reports success where the external resource does not exist (facts 11).
	UnknownGoneUnseen UnknownDrift = "GoneUnseen"
	// UnknownNotLooking: an external system that was told not to look.
	UnknownNotLooking UnknownDrift = "NotLooking"
)

// Why in words, as a clause.
func (b UnknownDrift) Why() string {
	switch b {
	case UnknownNothingComparable:
		return "the provider reports nothing that can be compared"
	case UnknownGoneUnseen:
		return "with managementPolicies [Observe, LateInitialize] the provider does not tell when the external resource is gone"
	case UnknownNotLooking:
		return "the system that applies it does not look for it"
	}
	return ""
}

// UnknownDriftOf tells why external drift of a managed resource is unknown. known, that
// there is something to compare, and gone are as Comparable and Gone in Managed.
func UnknownDriftOf(mr *parent.State, known, gone bool) UnknownDrift {
	p := mr.ManagementPolicies
	switch {
	case gone:
		return ""
	case !known:
		return UnknownNothingComparable
	case mask.Same(p, []string{string(v1alpha1.VerbObserve), string(v1alpha1.VerbLateInitialize)}):
		return UnknownGoneUnseen
	}
	return ""
}
