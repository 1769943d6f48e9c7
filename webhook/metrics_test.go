package webhook

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
)

// kindsWorld knows the kind DB alone.
type kindsWorld struct{ emptyWorld }

func (kindsWorld) Kind(gvk schema.GroupVersionKind) identity.Kind {
	if gvk.Kind == "DB" {
		return identity.Kind{Resource: "dbs"}
	}
	return identity.Kind{}
}

// A kind that the cluster does not have makes no metric of its own (KR-13-07).
func TestLabel(t *testing.T) {
	h := &Handler{Evaluator: &admission.Evaluator{World: kindsWorld{}}}
	for kind, want := range map[string]string{"DB": "DB", "Forged": "unknown"} {
		if got := h.label(&admission.Request{Kind: schema.GroupVersionKind{Kind: kind}}); got != want {
			t.Errorf("%s: want %s, got %s", kind, want, got)
		}
	}
}
