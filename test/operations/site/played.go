package site

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// A managed resource whose provider the test plays: it writes its status.

// Played database of hans, below an app or on its own, that is ready at once.
func (l *Site) Played(t *testing.T, ns, name string, parent *unstructured.Unstructured) {
	t.Helper()
	o := Object("shop.example.org/v1", "Database", ns, name, map[string]any{"managementPolicies": []any{"*"}, "forProvider": map[string]any{"size": int64(1)}})
	if parent != nil {
		yes := true
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: parent.GetAPIVersion(), Kind: parent.GetKind(), Name: parent.GetName(),
			UID: parent.GetUID(), Controller: &yes}})
	}
	_, err := l.As(t, Hans).Resource(Databases).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	l.Observes(t, ns, name, 1)
}

// Observes a size, as its provider.
func (l *Site) Observes(t *testing.T, ns, name string, size int64) {
	t.Helper()
	c := l.As(t, "system:serviceaccount:shop:provider").Resource(Databases).Namespace(ns)
	wait.For(t, "the provider to write its status", wait.Patience, func(ctx context.Context) error {
		o, err := c.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := func(kind string) map[string]any {
			return map[string]any{"type": kind, "status": "True", "reason": "Ok", "observedGeneration": o.GetGeneration(),
				"lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
		}
		o.Object["status"] = map[string]any{"conditions": []any{ready("Synced"), ready("Ready")}, "atProvider": map[string]any{"size": size}}
		_, err = c.UpdateStatus(ctx, o, metav1.UpdateOptions{})
		return err
	})
}

// GateOf a played database, its managementPolicies, and whether they are a mask.
func (l *Site) GateOf(ctx context.Context, ns, name string) (g v1alpha1.Gate, policies string, masked bool, err error) {
	o, err := l.Admin.Resource(Databases).Namespace(ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return g, "", false, err
	}
	_, masked = o.GetAnnotations()[v1alpha1.AnnotationKeyManagementPolicies]
	list, _, err := unstructured.NestedStringSlice(o.Object, "spec", "managementPolicies")
	if text := o.GetAnnotations()[v1alpha1.AnnotationKeyGate]; text != "" && err == nil {
		err = json.Unmarshal([]byte(text), &g)
	}
	return g, strings.Join(list, ","), masked, err
}

// ClosedGates of all databases, counted.
func (l *Site) ClosedGates(ctx context.Context) (n int, err error) {
	list, err := l.Admin.Resource(Databases).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for _, o := range list.Items {
		var g v1alpha1.Gate
		if text := o.GetAnnotations()[v1alpha1.AnnotationKeyGate]; text != "" {
			if err := json.Unmarshal([]byte(text), &g); err != nil {
				return 0, fmt.Errorf("the gate of %s: %w", o.GetName(), err)
			}
		}
		if g.State == v1alpha1.GateClosed {
			n++
		}
	}
	return n, nil
}

// ClosedGate of a played database.
func (l *Site) ClosedGate(t *testing.T, ns, name string) {
	t.Helper()
	wait.For(t, "the gate of "+name+" to close", wait.Patience, func(ctx context.Context) error {
		g, p, masked, err := l.GateOf(ctx, ns, name)
		if err == nil && (!masked || p != "Observe" || g.State != v1alpha1.GateClosed) {
			err = fmt.Errorf("managementPolicies are %s, masked %v, the gate is %s", p, masked, g.State)
		}
		return err
	})
}

// RestoredTo what its author wrote, without a gate.
func (l *Site) RestoredTo(t *testing.T, ns, name, want string) {
	t.Helper()
	wait.For(t, "the author's value of "+name+" to be restored", wait.Patience, func(ctx context.Context) error {
		g, p, masked, err := l.GateOf(ctx, ns, name)
		if err == nil && (masked || p != want || g.State != "") {
			err = fmt.Errorf("managementPolicies are %s, masked %v, the gate is %s", p, masked, g.State)
		}
		return err
	})
}
