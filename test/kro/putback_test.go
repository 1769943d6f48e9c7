package kro

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/kro/graphs"
)

// TestPutBack: an update by kro that is held is put back in the admitted write. kro takes it for a success and does not repeat it, and
// nothing is stored, the owners of fields included. Once it is approved, kro is woken (KR-18-06).
func TestPutBack(t *testing.T) {
	ns := namespace(t, "putback")
	shop(t, ns, "hello")
	settled(t, ns, 1)
	was := child(t, configMaps, ns)

	edit(t, "gold", false)
	t.Cleanup(func() { edit(t, "silver", false) })
	var held *unstructured.Unstructured
	wait.For(t, "the update to be put back", 30*time.Second, func(context.Context) error {
		held = drift(t, ns, "ConfigMap", "Update")
		if separated, _, _ := unstructured.NestedBool(held.Object, "status", "separated"); !separated {
			return fmt.Errorf("its status is %v", held.Object["status"])
		}
		return nil
	})
	assert.Equal(t, was, child(t, configMaps, ns))
	instance := active(t, ns)
	wait.Pause(t, 7*time.Second) // kro repeats a refused pass every three seconds
	assert.Equal(t, was, child(t, configMaps, ns))
	assert.Equal(t, instance.GetResourceVersion(), active(t, ns).GetResourceVersion())
	assert.Equal(t, held.Object["status"], drift(t, ns, "ConfigMap", "Update").Object["status"])

	// The author of the instance changes it meanwhile: that passes, and what is held stays so.
	patch(t, hans, shops, ns, "db", `{"spec":{"message":"bye"}}`)
	data(t, ns, "message", "bye")
	settled(t, ns, 2)
	assert.Equal(t, "silver", child(t, configMaps, ns)["data"].(map[string]any)["tier"])

	approve(t, ns, held)
	approved := time.Now()
	data(t, ns, "tier", "gold")
	assert.Less(t, time.Since(approved), controlplane.Patience(5*time.Second))
}

// TestTwoGraphs: kro serves one of two graphs that define one kind, and shows that in the status of the other one. Nothing changes for
// the instances of the first (KR-18-07).
func TestTwoGraphs(t *testing.T) {
	ns := namespace(t, "twographs")
	shop(t, ns, "hello")
	settled(t, ns, 1)
	var second unstructured.Unstructured
	require.NoError(t, decode(strings.NewReplacer("name: shop", "name: copy", "silver", "gold").Replace(graph), &second))
	_, err := as(t, anna).Resource(graphs.Graphs).Create(t.Context(), &second, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = as(t, anna).Resource(graphs.Graphs).Delete(context.WithoutCancel(t.Context()), "copy", metav1.DeleteOptions{})
	})
	wait.For(t, "kro to refuse the second graph", 30*time.Second, func(ctx context.Context) error {
		o, err := as(t, anna).Resource(graphs.Graphs).Get(ctx, "copy", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if status := fmt.Sprint(o.Object["status"]); !strings.Contains(status, "owned by another ResourceGraphDefinition shop") {
			return fmt.Errorf("its status is %s", status)
		}
		return nil
	})
	patch(t, hans, shops, ns, "db", `{"spec":{"message":"bye"}}`)
	data(t, ns, "message", "bye")
	assert.Equal(t, "silver", child(t, configMaps, ns)["data"].(map[string]any)["tier"])
}

// TestPutBackRemoval: a field that the graph drops is still kro's while it is held, so that it is removed once that is approved, be it
// that another change passes meanwhile (KR-18-06).
func TestPutBackRemoval(t *testing.T) {
	for _, meanwhile := range []bool{false, true} {
		t.Run(fmt.Sprint(meanwhile), func(t *testing.T) {
			ns := namespace(t, "removal")
			shop(t, ns, "hello")
			settled(t, ns, 1)
			edit(t, "", false)
			t.Cleanup(func() { edit(t, "silver", false) })
			held := drift(t, ns, "ConfigMap", "Update")
			if meanwhile {
				patch(t, hans, shops, ns, "db", `{"spec":{"message":"bye"}}`)
				data(t, ns, "message", "bye")
				settled(t, ns, 2)
			}
			data(t, ns, "tier", "silver")
			approve(t, ns, held)
			data(t, ns, "tier", "")
		})
	}
}

// TestRefusedByChoice: a policy may choose that updates are refused, which the status of the instance shows (KR-18-06).
func TestRefusedByChoice(t *testing.T) {
	ns := namespace(t, "refused")
	policy := fmt.Sprintf(`
apiVersion: kausality.io/v1alpha1
kind: Kausality
metadata: {name: %s}
spec:
  mode: enforce
  mixedCauses: Refuse
  namespaces: {names: [%s]}
  resources: [{apiGroups: [""], resources: [configmaps]}]
`, ns, ns)
	require.NoError(t, the.Apply(t.Context(), []byte(policy)))
	shop(t, ns, "hello")
	settled(t, ns, 1)
	edit(t, "gold", false)
	t.Cleanup(func() { edit(t, "silver", false) })
	held := drift(t, ns, "ConfigMap", "Update")
	refused(t, ns, "Drift: changing data.tier of ConfigMap")
	approve(t, ns, held)
	data(t, ns, "tier", "gold")
}

// approve a Drift on the instance, once, as hans.
func approve(t *testing.T, ns string, d *unstructured.Unstructured) {
	t.Helper()
	id, _, _ := unstructured.NestedString(d.Object, "spec", "id")
	annotate(t, ns, v1alpha1.AnnotationKeyApprovePrefix+id, "once")
}
