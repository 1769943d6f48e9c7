package kro

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// TestDecided: what an edit of the graph changes is snoozed, rejected and frozen on the instance, as below any other parent, and
// carried out after that is withdrawn (KR-18-01, KR-05-06).
func TestDecided(t *testing.T) {
	ns := namespace(t, "decided")
	shop(t, ns, "hello")
	settled(t, ns, 1)

	// Snoozed: it is held, and nothing is reported.
	annotate(t, ns, v1alpha1.AnnotationKeySnooze, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	edit(t, "gold", false)
	t.Cleanup(func() { edit(t, "silver", false) })
	var update *unstructured.Unstructured
	wait.For(t, "the Drift to be snoozed", 30*time.Second, func(context.Context) error {
		update = drift(t, ns, "ConfigMap", "Update")
		if snoozed, _, _ := unstructured.NestedBool(update.Object, "status", "snoozed"); !snoozed {
			return fmt.Errorf("its status is %v", update.Object["status"])
		}
		return nil
	})

	// Rejected: an approval does not count against it, and the author of the instance reads why.
	annotate(t, ns, v1alpha1.AnnotationKeyRejections, `[{"apiVersion":"v1","kind":"ConfigMap","name":"db","reason":"gold is too dear"}]`)
	id, _, _ := unstructured.NestedString(update.Object, "spec", "id")
	annotate(t, ns, v1alpha1.AnnotationKeyApprovePrefix+id, "once")
	refused(t, ns, "gold is too dear")
	assert.Equal(t, "silver", child(t, configMaps, ns)["data"].(map[string]any)["tier"])

	// Frozen: the user's own change is stored, and not carried out, either.
	annotate(t, ns, v1alpha1.AnnotationKeyFreeze, `{"user":"`+hans+`","message":"incident 123"}`)
	patch(t, hans, shops, ns, "db", `{"spec":{"message":"bye"}}`)
	refused(t, ns, "incident 123")
	assert.Equal(t, "hello", child(t, configMaps, ns)["data"].(map[string]any)["message"])

	// kro carries out both once nothing holds them.
	annotate(t, ns, v1alpha1.AnnotationKeyRejections, "")
	annotate(t, ns, v1alpha1.AnnotationKeyFreeze, "")
	data(t, ns, "message", "bye")
	data(t, ns, "tier", "gold")
}

// annotate the instance as hans; "" removes the annotation.
func annotate(t *testing.T, ns, key, value string) {
	t.Helper()
	annotations := map[string]any{key: value}
	if value == "" {
		annotations[key] = nil
	}
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	require.NoError(t, err)
	patch(t, hans, shops, ns, "db", string(raw))
}

// refused waits until a condition of the instance has a text of the refusal.
func refused(t *testing.T, ns, text string) {
	t.Helper()
	wait.For(t, "the refusal in the status of the instance", 30*time.Second, func(ctx context.Context) error {
		o, err := as(t, hans).Resource(shops).Namespace(ns).Get(ctx, "db", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if status := fmt.Sprint(o.Object["status"]); !strings.Contains(status, text) {
			return fmt.Errorf("%q is not in it: %s", text, status)
		}
		return nil
	})
}
