package operations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// stopWebhooks until the test ends.
func stopWebhooks(t *testing.T) {
	t.Helper()
	for _, p := range the.webhooks {
		p.Stop()
	}
	t.Cleanup(func() {
		for _, p := range the.webhooks {
			if err := p.Restart(); err != nil {
				t.Error(err)
			} else if err := p.Await(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
}

// closedBy waits until the configuration fails closed in a Namespace by its annotation, or no longer, and returns how long that took.
func closedBy(t *testing.T, ns string, want bool) time.Duration {
	t.Helper()
	began := time.Now()
	wait.For(t, fmt.Sprintf("the webhook to fail closed in %s: %v", ns, want), wait.Patience, func(ctx context.Context) error {
		all, err := entries(ctx)
		if err != nil {
			return err
		}
		is := false
		for _, e := range all {
			selectors, _, _ := unstructured.NestedSlice(e, "namespaceSelector", "matchExpressions")
			is = is || e["failurePolicy"] == "Fail" && strings.Contains(fmt.Sprint(selectors), "operator:In values:["+ns+"]")
		}
		if is != want {
			return fmt.Errorf("it is %v", is)
		}
		return nil
	})
	return time.Since(began)
}

// TestEnforcedByAnnotation: a Namespace that enforces by its annotation under a policy in mode log is refused changes while no webhook
// runs, others are not, and the policies show both. Where nothing can be enforced the annotation is refused (KR-12-10, KR-12-11).
func TestEnforcedByAnnotation(t *testing.T) {
	strict, loose := namespace(t, "by-annotation"), namespace(t, "by-policy")
	policy(t, "shop", map[string]any{"mode": "log"})
	guarded(t, strict)
	for _, critical := range []string{"kube-system", "kube-public", home} {
		err := merge(t, the.admin, namespaces, "", critical, annotate("kausality.io/mode", "enforce"))
		require.True(t, kerrors.IsInvalid(err), "%s: %v", critical, err)
	}
	require.NoError(t, merge(t, the.admin, namespaces, "", strict, annotate("kausality.io/mode", "enforce")))
	t.Cleanup(func() { _ = merge(t, the.admin, namespaces, "", strict, annotate("kausality.io/mode", nil)) })
	took, most := closedBy(t, strict, true), controlplane.Patience(time.Second)
	t.Logf("the configuration followed the annotation after %s", took)
	if took > most {
		t.Errorf("the configuration followed the annotation after %s, at most %s are wanted", took, most)
	}
	guarded(t, strict)
	stopWebhooks(t)
	statusOf(t, "shop", "Answering False", "allows, refuses in 1 namespace")

	wait.For(t, "the API server to refuse", wait.Patience, func(context.Context) error {
		if _, err := app(t, strict, fmt.Sprint("refused-", time.Now().UnixNano())); !kerrors.IsInternalError(err) {
			return fmt.Errorf("it answers %v", err) //nolint:errorlint // nil is an answer, too
		}
		return nil
	})
	_, err := app(t, loose, "allowed")
	require.NoError(t, err, "mode log stops nothing")

	require.NoError(t, merge(t, the.admin, namespaces, "", strict, annotate("kausality.io/mode", "log")))
	closedBy(t, strict, false)
	wait.For(t, "the API server to allow", wait.Patience, func(context.Context) error {
		_, err := app(t, strict, fmt.Sprint("allowed-", time.Now().UnixNano()))
		return err
	})
	statusOf(t, "shop", "Answering False", "allows")
}

// statusOf a policy: a condition, and what happens during an outage.
func statusOf(t *testing.T, name, condition, outage string) {
	t.Helper()
	wait.For(t, "the status of the policy", wait.Patience, func(ctx context.Context) error {
		k, err := the.admin.Resource(kausality).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		during, _, _ := unstructured.NestedString(k.Object, "status", "duringOutage")
		have := ""
		list, _, _ := unstructured.NestedSlice(k.Object, "status", "conditions")
		for _, e := range list {
			c, _ := e.(map[string]any)
			if c["type"] == strings.Fields(condition)[0] {
				have = fmt.Sprintf("%s %s", c["type"], c["status"])
			}
		}
		if have != condition || during != outage {
			return fmt.Errorf("it has %q and %q", have, during)
		}
		return nil
	})
}

// TestSuspend: under a suspended policy nothing is refused, gates stay closed whatever is approved, and managed resources under a gate
// cannot be deleted. Afterwards what happened meanwhile waits for approval (KR-12-13).
func TestSuspend(t *testing.T) {
	ns := namespace(t, "suspended")
	policy(t, "shop", map[string]any{"mode": "enforce"})
	guarded(t, ns)
	played(t, ns, "orders", nil)
	closedGate(t, ns, "orders")
	require.Error(t, stray(t, ns, "refused"))
	suspend := func(is bool) {
		require.NoError(t, merge(t, the.admin, kausality, "", "shop", map[string]any{"spec": map[string]any{"suspend": is}}))
		awaitPolicy(t, "shop")
	}
	suspend(true)
	n := 0
	wait.For(t, "nothing to be refused", wait.Patience, func(context.Context) error { n++; return stray(t, ns, fmt.Sprint("passes-", n)) })
	statusOf(t, "shop", "Answering True", "suspended")

	size := func(n int) map[string]any {
		return map[string]any{"spec": map[string]any{"forProvider": map[string]any{"size": n}}}
	}
	require.NoError(t, merge(t, as(t, hans), databases, ns, "orders", size(9)))
	id := externalDriftOf(t, ns, "orders")
	require.NoError(t, merge(t, as(t, hans), databases, ns, "orders", annotate("kausality.io/approve-"+id, "once")))
	err := as(t, hans).Resource(databases).Namespace(ns).Delete(t.Context(), "orders", forget)
	require.Error(t, err, "its external resource would be orphaned")
	considered(t, ns, "orders")
	closedGate(t, ns, "orders")

	suspend(false)
	// What was written while nothing reviewed it is ignored: it is given again (KR-13-69).
	require.NoError(t, merge(t, as(t, hans), databases, ns, "orders", annotate("kausality.io/approve-"+id, "once: again")))
	wait.For(t, "the gate to open by the approval that is given again", wait.Patience, func(ctx context.Context) error {
		g, p, _, err := gateOf(ctx, ns, "orders")
		if err == nil && g.State != "open" {
			err = fmt.Errorf("the gate is %s, managementPolicies are %s", g.State, p)
		}
		return err
	})
	observes(t, ns, "orders", 9)
	closedGate(t, ns, "orders")
	require.NoError(t, the.admin.Resource(kausality).Delete(t.Context(), "shop", forget))
	restoredTo(t, ns, "orders", "*")
	require.NoError(t, the.admin.Resource(databases).Namespace(ns).Delete(t.Context(), "orders", forget))
}

// considered: the gate has reconciled an object as it is now: it has reconciled things as often as the object has changed since, and has nothing else to do.
func considered(t *testing.T, ns, name string) {
	t.Helper()
	reconciled := func(ctx context.Context) (float64, error) {
		m, err := controlplane.ReadMetrics(ctx, "http://"+the.gate.Metrics+"/metrics")
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
			merge(t, the.admin, databases, ns, name, map[string]any{"metadata": map[string]any{"labels": map[string]any{"seen": fmt.Sprint(n)}}}))
	})
}

// externalDriftOf a database, once it is reported: its id.
func externalDriftOf(t *testing.T, ns, name string) (id string) {
	t.Helper()
	wait.For(t, "the external drift of "+name, wait.Patience, func(ctx context.Context) error {
		all, err := the.admin.Resource(driftResource).Namespace(ns).List(ctx, metav1.ListOptions{})
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
