package external

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
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

const otto = "otto@example.com"

// ruled requires the approvals of two persons for what is changed in the Namespace of an object, at some paths.
func (a *actor) ruled(namespace string, paths ...any) {
	a.t.Helper()
	match := map[string]any{"namespaces": []any{namespace}}
	if len(paths) > 0 {
		match["paths"] = paths
	}
	rule := object("kausality.io/v1alpha1", "ApprovalRule", "", namespace, map[string]any{"match": match, "require": []any{
		map[string]any{"count": int64(2), "subjects": []any{map[string]any{"kind": "User", "name": hans}, map[string]any{"kind": "User", "name": otto}}}}})
	client := as(a.t, hans).Resource(rules)
	_, err := client.Create(a.t.Context(), rule, metav1.CreateOptions{})
	require.NoError(a.t, err)
	a.t.Cleanup(func() { _ = client.Delete(context.Background(), namespace, metav1.DeleteOptions{}) })
}

// vote for a difference as hans, and then as otto; with the first vote nothing is carried out.
func (a *actor) vote(id string, done int) {
	a.t.Helper()
	key := v1alpha1.AnnotationKeyApprovePrefix + id
	a.patch(`{"metadata":{"annotations":{"` + key + `":"once"}}}`)
	a.await("the first vote to be counted", both(without(key), func(o *unstructured.Unstructured) error {
		if stored := o.GetAnnotations()[v1alpha1.AnnotationKeyClaims]; !strings.Contains(stored, hans) || strings.Contains(stored, otto) || !sealed(stored) {
			return fmt.Errorf("the claims are %s", stored)
		}
		return nil
	}))
	wait.For(a.t, "the Drift to name what is missing", 30*time.Second, func(ctx context.Context) error {
		list, err := as(a.t, hans).Resource(drifts).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, d := range list.Items {
			if found, _, _ := unstructured.NestedString(d.Object, "spec", "id"); found == id {
				if lacks, _, _ := unstructured.NestedString(d.Object, "status", "lacks"); strings.Contains(lacks, "1 of 2 approvals") {
					return nil
				}
				raw, err := json.Marshal(d.Object["status"])
				return fmt.Errorf("its status is %s (%w)", raw, err)
			}
		}
		return fmt.Errorf("no Drift of %s", id)
	})
	if got := a.all(); len(got) != done {
		a.t.Fatalf("carried out by one vote of two: %v", got)
	}
	gvr, namespace := a.gvr, a.namespace
	wait.For(a.t, "otto's vote", 20*time.Second, func(ctx context.Context) error {
		_, err := as(a.t, otto).Resource(gvr).Namespace(namespace).Patch(ctx, a.name, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+key+`":"once"}}}`), metav1.PatchOptions{FieldManager: "otto"})
		return err
	})
}

// sealed reports whether claims end with a seal.
func sealed(claims string) bool { return strings.Contains(claims, `"state":"seal"`) }

// used: the claims that the gate wrote are sealed, and name the use of the approval.
func used(o *unstructured.Unstructured) error {
	if stored := o.GetAnnotations()[v1alpha1.AnnotationKeyClaims]; !sealed(stored) || !strings.Contains(stored, `"state":"used"`) {
		return fmt.Errorf("the claims are %s", stored)
	}
	return nil
}

// TestFluxVotes: a plan is applied by the votes that an ApprovalRule requires whose paths are those of the difference. What the gate writes
// of it is sealed (KR-13-69).
func TestFluxVotes(t *testing.T) {
	t.Parallel()
	f := newFlux(t, "flux-votes")
	f.await("the gate to be installed", gate(v1alpha1.GateClosed, "Installed"))
	f.ruled(f.namespace, "status.plan.pending")
	f.push("main/2222222222bb")
	id := f.drift()
	f.vote(id, 1)
	f.await("the plan to be applied and the gate closed", both(gate(v1alpha1.GateClosed, "Confirmed"), used))
	f.awaitResolved(id)
}

// TestFluxOtherPaths: a rule about other paths requires nothing of a plan (KR-14-04).
func TestFluxOtherPaths(t *testing.T) {
	t.Parallel()
	f := newFlux(t, "flux-paths")
	f.await("the gate to be installed", gate(v1alpha1.GateClosed, "Installed"))
	f.ruled(f.namespace, "spec.forProvider.engine")
	f.push("main/2222222222bb")
	id := f.drift()
	f.patch(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationKeyApprovePrefix + id + `":"once"}}}`)
	f.await("the plan to be applied and the gate closed", both(gate(v1alpha1.GateClosed, "Confirmed"), used))
}

// TestArgoCDVotes: a sync begins by the votes that an ApprovalRule requires.
func TestArgoCDVotes(t *testing.T) {
	t.Parallel()
	a := newArgo(t, "argo-votes")
	a.await("the gate to be installed", gate(v1alpha1.GateClosed, "Installed"))
	a.ruled(a.namespace, "status.sync")
	a.push("2222", false, false)
	id := a.drift()
	a.vote(id, 1)
	a.await("the sync and the gate closed", both(gate(v1alpha1.GateClosed, "Confirmed"), used))
	a.awaitResolved(id)
}
