package playground

import (
	"context"
	"fmt"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// The database that was changed in the cloud.
const (
	waitsIn   = "story"
	waitsName = "payments"
	waitsFor  = 90 * time.Second
)

// Waits leaves a change that waits for a decision, so that there is something to look at: of a database in Namespace story, which another user changed in
// the cloud.
func (p *Playground) Waits(ctx context.Context) error {
	c, err := dynamic.NewForConfig(p.Config())
	if err != nil {
		return err
	}
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": waitsIn}}}
	_, err = c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(ctx, ns, metav1.CreateOptions{})
	if err != nil && !kerrors.IsAlreadyExists(err) {
		return err
	}
	databases := c.Resource(story.Databases).Namespace(waitsIn)
	db := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cloud.example.org/v1alpha1", "kind": "Database",
		"metadata": map[string]any{"name": waitsName},
		"spec":     map[string]any{"forProvider": map[string]any{"size": int64(50), "tags": map[string]any{"tier": "gold"}}}}}
	if _, err := databases.Create(ctx, db, metav1.CreateOptions{}); err != nil && !kerrors.IsAlreadyExists(err) {
		return err
	}
	err = controlplane.Eventually(ctx, "the gate of "+waitsName+" to close", waitsFor, func(ctx context.Context) error {
		o, err := databases.Get(ctx, waitsName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if g := mask.ParseGate(o.GetAnnotations()); g.State != v1alpha1.GateClosed {
			return fmt.Errorf("it is %+v", g)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := p.Cloud.Change(ctx, waitsName, client.Fields{"size": 7}); err != nil {
		return err
	}
	return controlplane.Eventually(ctx, "the change in the cloud to be reported", waitsFor, func(ctx context.Context) error {
		list, err := c.Resource(story.Drifts).Namespace(waitsIn).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) == 0 {
			err = fmt.Errorf("there is no Drift in Namespace %s", waitsIn)
		}
		return err
	})
}
