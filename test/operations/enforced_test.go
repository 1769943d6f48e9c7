package operations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

// TestSuspend: under a suspended policy nothing is refused, gates stay closed whatever is approved, and managed resources under a gate
// cannot be deleted. Afterwards what happened meanwhile waits for approval (KR-12-13).
func TestSuspend(t *testing.T) {
	ns := the.Namespace(t, "suspended")
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	the.Played(t, ns, "orders", nil)
	the.ClosedGate(t, ns, "orders")
	require.Error(t, the.Stray(t, ns, "refused"))
	suspend := func(is bool) {
		require.NoError(t, site.Merge(t, the.Admin, site.Kausality, "", "shop", map[string]any{"spec": map[string]any{"suspend": is}}))
		the.AwaitPolicy(t, "shop")
	}
	suspend(true)
	n := 0
	wait.For(t, "nothing to be refused", wait.Patience, func(context.Context) error { n++; return the.Stray(t, ns, fmt.Sprint("passes-", n)) })
	the.StatusOf(t, "shop", "Answering True", "suspended")

	size := func(n int) map[string]any {
		return map[string]any{"spec": map[string]any{"forProvider": map[string]any{"size": n}}}
	}
	require.NoError(t, site.Merge(t, the.As(t, site.Hans), site.Databases, ns, "orders", size(9)))
	id := externalDriftOf(t, ns, "orders")
	require.NoError(t, site.Merge(t, the.As(t, site.Hans), site.Databases, ns, "orders", site.Annotate("kausality.io/approve-"+id, "once")))
	remove := func(ctx context.Context, o metav1.DeleteOptions) error {
		return the.As(t, site.Hans).Resource(site.Databases).Namespace(ns).Delete(ctx, "orders", o)
	}
	// Its external resource would be orphaned. The API server reads the policies that it validates by once per second.
	wait.For(t, "the API server to refuse the deletion by itself", wait.Patience, func(ctx context.Context) error {
		if err := remove(ctx, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); !orphans(err) {
			return fmt.Errorf("it is not: %w", err)
		}
		return nil
	})
	err := remove(t.Context(), site.Forget)
	require.True(t, orphans(err), "its external resource would be orphaned: %v", err)
	considered(t, ns, "orders")
	the.ClosedGate(t, ns, "orders")

	suspend(false)
	// What was written while nothing reviewed it is ignored: it is given again (KR-13-69).
	require.NoError(t, site.Merge(t, the.As(t, site.Hans), site.Databases, ns, "orders", site.Annotate("kausality.io/approve-"+id, "once: again")))
	wait.For(t, "the gate to open by the approval that is given again", wait.Patience, func(ctx context.Context) error {
		g, p, _, err := the.GateOf(ctx, ns, "orders")
		if err == nil && g.State != "open" {
			err = fmt.Errorf("the gate is %s, managementPolicies are %s", g.State, p)
		}
		return err
	})
	the.Observes(t, ns, "orders", 9)
	the.ClosedGate(t, ns, "orders")
	require.NoError(t, the.Admin.Resource(site.Kausality).Delete(t.Context(), "shop", site.Forget))
	the.RestoredTo(t, ns, "orders", "*")
	require.NoError(t, the.Admin.Resource(site.Databases).Namespace(ns).Delete(t.Context(), "orders", site.Forget))
}

// orphans reports whether an error is the refusal of a deletion by the admission policy of the chart.
func orphans(err error) bool {
	return kerrors.IsForbidden(err) && strings.Contains(err.Error(), "would leave its external resource behind: the gate is closed")
}

// considered: the gate has reconciled an object as it is now: it has reconciled things as often as the object has changed since, and has nothing else to do.
func considered(t *testing.T, ns, name string) {
	t.Helper()
	reconciled := func(ctx context.Context) (float64, error) {
		m, err := controlplane.ReadMetrics(ctx, "http://"+the.Gate.Metrics+"/metrics")
		if err != nil {
			return 0, err
		}
		return m.Reconciled("gate")
	}
	before, n := -1.0, 0
	wait.For(t, "the gate to reconcile "+name, wait.Patience, func(ctx context.Context) error {
		now, err := reconciled(ctx)
		if err != nil {
			return err
		}
		if before < 0 {
			before = now
		}
		if n >= 5 && now >= before+5 {
			return nil
		}
		n++
		return errors.Join(fmt.Errorf("after %d changes it has reconciled %v objects", n, now-before),
			site.Merge(t, the.Admin, site.Databases, ns, name, map[string]any{"metadata": map[string]any{"labels": map[string]any{"seen": fmt.Sprint(n)}}}))
	})
}

// externalDriftOf a database, once it is reported: its id.
func externalDriftOf(t *testing.T, ns, name string) (id string) {
	t.Helper()
	wait.For(t, "the external drift of "+name, wait.Patience, func(ctx context.Context) error {
		all, err := the.Admin.Resource(site.Drifts).Namespace(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range all.Items {
			child, _, _ := unstructured.NestedString(all.Items[i].Object, "spec", "child", "name")
			phase, _, _ := unstructured.NestedString(all.Items[i].Object, "status", "phase")
			if child == name && phase == "Detected" {
				id = all.Items[i].GetName()
				return nil
			}
		}
		return fmt.Errorf("there are %d others", len(all.Items))
	})
	return id
}
