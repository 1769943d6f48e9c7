package controlplane

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// InstallCRDs applies the CRDs that come with the part and waits until they are established.
// Conversion webhooks are left out: nothing serves them outside a cluster.
func (c *ControlPlane) InstallCRDs(ctx context.Context, part string) error {
	manifests, err := parts.CRDs(ctx, part)
	if err != nil {
		return err
	}

	objs, err := Decode(manifests)
	if err != nil {
		return fmt.Errorf("cannot install the CRDs of %s: %w", part, err)
	}

	for _, o := range objs {
		unstructured.RemoveNestedField(o.Object, "spec", "conversion")
	}

	return c.applier.apply(ctx, objs)
}
