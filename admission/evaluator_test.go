package admission

import (
	"errors"
	"testing"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/parent"
)

// Without a World nothing could be checked, and so nothing is constructed.
func TestNoWorld(t *testing.T) {
	if e, err := NewEvaluator(nil, enforced(), nil); !errors.Is(err, errNoWorld) || e != nil {
		t.Errorf("got %v, %v", e, err)
	}
	if e, err := NewEvaluator(newWorld(), enforced(), nil); err != nil || e == nil {
		t.Errorf("with a World: %v, %v", e, err)
	}
}

// What Nothing answers allows nothing that a right is required for, and withdraws nothing that was reviewed.
func TestNothing(t *testing.T) {
	n := Nothing{}
	if may, err := n.MayApprove(t.Context(), fx.Alice, parent.Ref{}, SubresourceApproval); may || err != nil {
		t.Errorf("a user may approve: %v", err)
	}
	if n.Component(fx.Alice, "kausality-webhook") || n.MayControl(fx.Alice, parent.RoleNone) || n.Removing() || !n.Guarded(nil) {
		t.Error("a user is one of Kausality's components or a controller, Kausality is being removed, or approvals do not count")
	}
}
