package gate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/rights"
)

// reconcileRequested is the annotation that makes Crossplane reconcile.
const reconcileRequested = "crossplane.io/reconcile-requested-at"

// requests are the values that an XR's reconcile request had, as a watch saw
// them.
type requests struct {
	seen chan string
}

func (s *fixture) watchRequests(name string) *requests {
	s.t.Helper()
	w, err := s.of(s.hans, xstores).Watch(s.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	require.NoError(s.t, err)
	s.t.Cleanup(w.Stop)
	r := &requests{seen: make(chan string, 100)}
	go func() {
		last := ""
		for e := range w.ResultChan() {
			if o, ok := e.Object.(*unstructured.Unstructured); ok {
				if at := o.GetAnnotations()[reconcileRequested]; at != last {
					last = at
					r.seen <- at
				}
			}
		}
	}()
	return r
}

// once: one request comes, and no other within a time.
func (r *requests) once(t *testing.T, what string) {
	t.Helper()
	wait.Receive(t, "the XR to be woken: "+what, 40*time.Second, r.seen)
	r.none(t, what+", a second time")
}

func (r *requests) none(t *testing.T, what string) {
	t.Helper()
	wait.Pause(t, 2*time.Second) // an absent event has no condition to wait for
	select {
	case at := <-r.seen:
		t.Errorf("%s: the XR is woken at %s", what, at)
	default:
	}
}

// refusedTier: Crossplane is refused a new Composition revision.
func (s *fixture) refusedTier(name string) {
	s.t.Helper()
	wait.For(s.t, "the new tier to be refused", 30*time.Second, func(ctx context.Context) error {
		if err := s.compose(ctx, name, composeAs{tier: "gold"}); err == nil {
			return fmt.Errorf("it passed")
		}
		return nil
	})
	s.awaitDrift(s.mrName(name))
}

// TestWakeByMode: the mode of the Namespace changes, and the XR whose child was
// refused is woken, once; another one is not.
//
// It does not run with others: their changes would wake this XR, too (KR-08-20).
func TestWakeByMode(t *testing.T) {
	s := newFixture(t, "wake-mode")
	s.settled("store", 10)
	s.settled("calm", 10)
	s.refusedTier("store")
	store, calm := s.watchRequests("store"), s.watchRequests("calm")
	_, err := s.hans.Resource(namespaces).Patch(t.Context(), s.ns, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"kausality.io/mode":"log"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	store.once(t, "mode log")
	calm.none(t, "nothing was refused")
	wait.For(t, "the change to pass", 30*time.Second, func(ctx context.Context) error { return s.compose(ctx, "store", composeAs{tier: "gold"}) })
}

// TestWakeByPolicy: a change of any policy wakes the XRs, and so does the
// beginning of its window (KR-08-20).
func TestWakeByPolicy(t *testing.T) {
	s := newFixture(t, "wake-policy")
	defer func() { rights.Show(t, the.AuditLog()) }()
	policies := schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "upgradeallowances"}
	s.settled("store", 10)
	s.refusedTier("store")
	r := s.watchRequests("store")
	policy := func(validFrom time.Time) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kausality.io/v1alpha1", "kind": "UpgradeAllowance",
			"metadata": map[string]any{"name": s.ns},
			"spec": map[string]any{
				"serviceAccount": "system:serviceaccount:elsewhere:controller", "validFrom": validFrom.UTC().Format(time.RFC3339),
				"allow": []any{map[string]any{"kind": "Database", "relation": "Child", "mutations": []any{"spec.forProvider.size"}}},
			}}}
	}
	wait.For(t, "a policy to be accepted", 30*time.Second, func(ctx context.Context) error {
		_, err := s.hans.Resource(policies).Create(ctx, policy(time.Now().Add(-time.Hour)), metav1.CreateOptions{})
		return err
	})
	r.once(t, "a policy came")
	_, err := s.hans.Resource(policies).Patch(t.Context(), s.ns, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	r.none(t, "its metadata changed")
	begins := fmt.Sprintf(`{"spec":{"validFrom":%q}}`, time.Now().Add(6*time.Second).UTC().Format(time.RFC3339))
	_, err = s.hans.Resource(policies).Patch(t.Context(), s.ns, types.MergePatchType, []byte(begins), metav1.PatchOptions{})
	require.NoError(t, err)
	r.once(t, "it changed")
	r.once(t, "its window begins")
	require.NoError(t, s.hans.Resource(policies).Delete(t.Context(), s.ns, metav1.DeleteOptions{}))
	r.once(t, "it is gone")
}
