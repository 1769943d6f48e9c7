package states

import (
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/parent"
)

// Sealed is an object whose claims are sealed.
func Sealed(ref parent.Ref) approval.Sealed {
	return approval.Sealed{Kind: ref.GroupKind(), Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
}

// Trust puts the claims that count into the state of an object that was read by other means than States.
func (s *States) Trust(o *parent.State) {
	o.Annotations = s.Claims.Trusted(Sealed(o.Ref), o.Annotations, clock.Now())
}
