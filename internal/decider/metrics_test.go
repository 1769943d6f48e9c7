package decider

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
)

// kindsWorld knows the kind DB alone.
type kindsWorld struct{ admission.Nothing }

func (kindsWorld) Namespace(context.Context, string, bool) (settings.Namespace, error) {
	return settings.Namespace{}, nil
}
func (kindsWorld) Parent(context.Context, parent.Ref, bool) (*parent.State, error) {
	return nil, admission.ErrNotFound
}
func (kindsWorld) Settled(parent.Ref) int64 { return -1 }
func (kindsWorld) Kind(gvk schema.GroupVersionKind) identity.Kind {
	if gvk.Kind == "DB" {
		return identity.Kind{Resource: "dbs"}
	}
	return identity.Kind{}
}

// A kind that the cluster does not have makes no metric of its own (KR-13-07).
func TestLabel(t *testing.T) {
	h := &Decider{Evaluator: &admission.Evaluator{World: kindsWorld{}}}
	for gvk, want := range map[schema.GroupVersionKind]string{
		{Kind: "DB"}: "DB", {Group: "apps", Version: "v1", Kind: "Deployment"}: "Deployment", {Version: "v1", Kind: "Forged"}: "unknown",
	} {
		if got := label(h, &admission.Request{Kind: gvk}); got != want {
			t.Errorf("%s: want %s, got %s", gvk, want, got)
		}
	}
}
