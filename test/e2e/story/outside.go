package story

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// ChangeOutside changes the database in the cloud, once its gate is closed and its provider has reported on the spec with
// the mask: before, a reconcile may be under way that began while the gate was open, and would revert the change before
// the gate can know of it.
func (e *Env) ChangeOutside(ctx context.Context, fields client.Fields) error {
	name := ""
	err := until(ctx, "the provider to know the mask", func(ctx context.Context) error {
		mr, err := e.MR(ctx)
		if err != nil {
			return err
		}
		name = mr.GetName()
		if g := mask.ParseGate(mr.GetAnnotations()); g.State != v1alpha1.GateClosed {
			return fmt.Errorf("the gate is %+v", g)
		}
		if g := SyncedGeneration(mr); g < mr.GetGeneration() {
			return fmt.Errorf("generation %d is observed of %d", g, mr.GetGeneration())
		}
		return nil
	})
	if err != nil {
		return err
	}
	return e.Cloud.Change(ctx, name, fields)
}

// SyncedGeneration is the one that the provider's last reconcile was about; 0 before the first.
func SyncedGeneration(o *unstructured.Unstructured) int64 {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions") // nothing else is stored there
	for _, e := range list {
		if c, ok := e.(map[string]any); ok && c["type"] == "Synced" {
			g, _ := c["observedGeneration"].(int64)
			return g
		}
	}
	return 0
}
