package outcome

import (
	"github.com/kausality-io/function-kausality/admission/identity"
)

// UnknownFreeze returns the refusal where it cannot be read whether an object is frozen.
func UnknownFreeze(err error) Refusal {
	return Refusal{Code: CodeInternal, Reason: ReasonParentUnreadable, Why: err.Error(), Next: "Try again."}
}

// AfterOpening is what becomes of a change that is approved, and lacks nothing but a window that is open.
const AfterOpening = "It is approved, and passes when it is tried again while the window is open."

// Frozen returns the refusal by a freeze, which holds in both modes (KR-05-22).
func Frozen(f *identity.Freeze) Refusal {
	return Refusal{Code: 403, Reason: ReasonFrozen, Why: f.Why(), Next: "To unfreeze: " + f.End()}
}
