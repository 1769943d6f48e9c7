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
	// UnknownBeyondOutputs: as UnknownNothingComparable, and atProvider shows outputs or a checksum
	// of the state, by which a part of the drift is known.
	UnknownBeyondOutputs UnknownDrift = "BeyondOutputs"
	// UnknownGoneUnseen: policies of Observe and LateInitialize alone, under which
	// crossplane-runtime reports success for an external resource that does not exist.
	UnknownGoneUnseen UnknownDrift = "GoneUnseen"
	// UnknownNotLooking: an external system that is configured not to compare.
	UnknownNotLooking UnknownDrift = "NotLooking"
)

// Why returns why external drift is unknown, as a clause; "" where it is known.
func (b UnknownDrift) Why() string {
	switch b {
	case UnknownNothingComparable:
		return "the provider reports nothing that can be compared"
	case UnknownBeyondOutputs:
		return "the provider reports outputs or a checksum alone, which show a part of it"
	case UnknownGoneUnseen:
		return "with managementPolicies [Observe, LateInitialize] the provider does not report that the external resource is gone"
	case UnknownNotLooking:
		return "the system that applies it does not compare it"
	}
	return ""
}

// UnknownDriftOf returns why external drift of a managed resource is unknown (KR-08-22).
func UnknownDriftOf(mr *parent.State, seen Observed) UnknownDrift {
	p := mr.ManagementPolicies
	switch {
	case seen.Gone:
		return ""
	case !seen.Comparable && len(seen.Shown) > 0:
		return UnknownBeyondOutputs
	case !seen.Comparable:
		return UnknownNothingComparable
	case mask.Same(p, []string{string(v1alpha1.VerbObserve), string(v1alpha1.VerbLateInitialize)}):
		return UnknownGoneUnseen
	}
	return ""
}
