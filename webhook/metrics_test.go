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
	for gvk, want := range map[schema.GroupVersionKind]string{
		{Kind: "DB"}: "DB", {Group: "apps", Version: "v1", Kind: "Deployment"}: "Deployment", {Version: "v1", Kind: "Forged"}: "unknown",
	} {
		if got := h.label(&admission.Request{Kind: gvk}); got != want {
			t.Errorf("%s: want %s, got %s", gvk, want, got)
		}
	}
}
