package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// TestChartDryRun: the API server accepts the chart's manifests with other values,
// too.
func TestChartDryRun(t *testing.T) {
	for name, args := range map[string][]string{
		"Defaults": nil,
		"Much": {"--set", "defaultMode=enforce,notifier.enabled=true,notifier.tlsSecretName=tls,metrics.dashboards.enabled=true," +
			"webhook.replicas=3,crds.keep=false"},
		"Little": {"--set", "metrics.enabled=false,ungate.enabled=false,crds.install=false"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := the.render(t.Context(), args...)
			require.NoError(t, err)
			for _, o := range objects {
				r, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
				c := the.admin.Resource(r).Namespace(o.GetNamespace())
				_, err := c.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "helm", Force: true, DryRun: []string{metav1.DryRunAll}})
				if err != nil {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
		})
	}
}

// off stops the policy controller and deletes the webhook configuration, as in an
// emergency; the function that it returns restores both.
func off(t *testing.T) {
	t.Helper()
	the.controller.Stop()
	t.Cleanup(func() {
		if err := the.controller.Restart(); err != nil {
			t.Error(err)
		} else if err := the.controller.Await(context.Background()); err != nil {
			t.Error(err)
		}
	})
	require.NoError(t, the.admin.Resource(hooks).Delete(t.Context(), "kausality", forget))
}

// TestProtectionWhileDown: without the webhook, annotations that only Kausality
// writes are protected, and no masked managed resource can be deleted; users may
// change their annotations and everything else, and a controller's copies pass
// (KR-08-15, KR-12-05).
func TestProtectionWhileDown(t *testing.T) {
	ns := namespace(t, "down")
	policy(t, "shop", map[string]any{
		"mode": "enforce", "overrides": []any{map[string]any{"namespaces": []any{namespace(t, "lenient")}, "mode": "log"}},
		"resources": []any{
			map[string]any{"apiGroups": []any{"shop.example.org"}, "resources": []any{"*"}},
			map[string]any{"apiGroups": []any{"apps"}, "resources": []any{"deployments"}},
		},
	})
	guarded(t, ns)
	guarded(t, "lenient")
	_, err := app(t, ns, "mine")
	require.NoError(t, err)
	web := deploymentOf(t, ns)
	yes := true
	child := object("shop.example.org/v1", "App", ns, "child", map[string]any{"size": int64(1)})
	parent, err := the.admin.Resource(apps).Namespace(ns).Get(t.Context(), "mine", metav1.GetOptions{})
	require.NoError(t, err)
	child.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "shop.example.org/v1", Kind: "App", Name: "mine", UID: parent.GetUID(), Controller: &yes}})
	_, err = as(t, hans).Resource(apps).Namespace(ns).Create(t.Context(), child, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = app(t, "lenient", "mine")
	require.NoError(t, err)
	off(t)
	mr := object("shop.example.org/v1", "Database", ns, "masked", map[string]any{"managementPolicies": []any{"Observe"}})
	mr.SetAnnotations(map[string]string{"kausality.io/management-policies": `["*"]`})
	wait.For(t, "the API server to call no webhook", wait.Patience, func(context.Context) error {
		_, err := as(t, hans).Resource(databases).Namespace(ns).Create(t.Context(), mr, metav1.CreateOptions{})
		return err
	})
	wait.For(t, "the API server to protect annotations", wait.Patience, func(ctx context.Context) error { // a new policy reaches it within a second or two
		_, err := as(t, hans).Resource(apps).Namespace(ns).Patch(ctx, "mine", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"kausality.io/trace":null}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if !kerrors.IsInvalid(err) {
			return fmt.Errorf("it answers %v", err) //nolint:errorlint // nil is an answer, too
		}
		return nil
	})
	both := annotate("kausality.io/trace", nil)
	both["spec"] = map[string]any{"size": int64(2)}
	const robot, controller = "system:serviceaccount:tools:robot", "system:serviceaccount:apps:controller"
	cases := map[string]struct {
		user, ns, name string
		patch          map[string]any
		invalid        bool
	}{
		"Trace":           {user: hans, ns: ns, name: "mine", patch: annotate("kausality.io/trace", "[]"), invalid: true},
		"TraceRemoved":    {user: hans, ns: ns, name: "mine", patch: annotate("kausality.io/trace", nil), invalid: true},
		"RemovedWithSpec": {user: hans, ns: ns, name: "mine", patch: both, invalid: true},
		"Latch":           {user: hans, ns: ns, name: "mine", patch: annotate("kausality.io/settled-generation", "9"), invalid: true},
		"LatchedState": {user: hans, ns: ns, name: "mine", patch: annotate("kausality.io/settled-state", "9,0123456789abcdef"),
			invalid: true},
		"Robot": {user: robot, ns: ns, name: "mine", patch: annotate("kausality.io/trace", "[]"), invalid: true},
		"RobotOnRoot": {user: controller, ns: ns, name: "mine", patch: annotate("kausality.io/phase", "initialized"),
			invalid: true},
		"ControllerCopies": {user: controller, ns: ns, name: "child", patch: annotate("kausality.io/updaters", "abcde")},
		"Freeze":           {user: hans, ns: ns, name: "mine", patch: annotate("kausality.io/freeze", `{"user":"hans"}`)},
		"Approval":         {user: hans, ns: ns, name: "mine", patch: annotate("kausality.io/approve-0123456789abcdef", "once")},
		"Spec":             {user: hans, ns: ns, name: "mine", patch: map[string]any{"spec": map[string]any{"size": int64(3)}}},
		"OtherAnnotation":  {user: hans, ns: ns, name: "mine", patch: annotate("example.org/a", "b")},
		"LogMode":          {user: hans, ns: "lenient", name: "mine", patch: annotate("kausality.io/trace", "[]")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := merge(t, as(t, tc.user), apps, tc.ns, tc.name, tc.patch)
			if tc.invalid && (!kerrors.IsInvalid(err) || !strings.Contains(err.Error(), "Kausality alone writes")) || !tc.invalid && err != nil {
				t.Errorf("want it refused: %v, got %v", tc.invalid, err)
			}
		})
	}
	protectedStatus(t, ns, web)
	if err := as(t, hans).Resource(databases).Namespace(ns).Delete(t.Context(), "masked", forget); !kerrors.IsForbidden(err) {
		t.Errorf("a masked managed resource: want 403, got %v", err)
	}
	if err := merge(t, as(t, hans), databases, ns, "masked", annotate("kausality.io/management-policies", nil)); !kerrors.IsInvalid(err) {
		t.Errorf("what is remembered of a masked managed resource: want 422, got %v", err)
	}
	require.NoError(t, merge(t, as(t, hans), databases, ns, "masked", annotate("kausality.io/deletion", "orphan")))
	require.NoError(t, as(t, hans).Resource(databases).Namespace(ns).Delete(t.Context(), "masked", forget))
}

// deploymentOf hans, and its name.
func deploymentOf(t *testing.T, ns string) string {
	t.Helper()
	labels := map[string]any{"app": "web"}
	o := object("apps/v1", "Deployment", ns, "web", map[string]any{
		"replicas": int64(0), "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": "registry.example.org/web:1"}}}},
	})
	_, err := as(t, hans).Resource(deployments).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	return o.GetName()
}

// protectedStatus of a Deployment, whose status stores annotations: no annotation of
// Kausality is changed by it, users' included, and everything else is (KR-13-54).
func protectedStatus(t *testing.T, ns, name string) {
	t.Helper()
	for key, refused := range map[string]bool{"kausality.io/approve-0123456789abcdef": true, "kausality.io/trace": true, "example.org/a": false} {
		patch := annotate(key, "[]")
		patch["status"] = map[string]any{"observedGeneration": int64(1)}
		raw, err := json.Marshal(patch)
		require.NoError(t, err)
		_, err = as(t, "system:serviceaccount:tools:robot").Resource(deployments).Namespace(ns).Patch(t.Context(), name, types.MergePatchType, raw,
			metav1.PatchOptions{FieldManager: "robot"}, "status")
		if refused && !kerrors.IsInvalid(err) || !refused && err != nil {
			t.Errorf("%s by a status: want it refused: %v, got %v", key, refused, err)
		}
	}
}

// load creates and deletes apps until it is stopped; under a policy that fails
// closed, a call of the webhook that fails is an error.
type load struct {
	calls, failed atomic.Int64
	first         atomic.Pointer[error]
	stop          context.CancelFunc
	workers       sync.WaitGroup
}

func startLoad(t *testing.T, ns string) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{stop: cancel}
	for worker := range 3 {
		c := as(t, hans).Resource(apps).Namespace(ns)
		l.workers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				o := object("shop.example.org/v1", "App", ns, fmt.Sprintf("load-%d-%d", worker, n), map[string]any{"size": int64(n)})
				got, err := c.Create(ctx, o, metav1.CreateOptions{})
				if err == nil && got.GetAnnotations()["kausality.io/trace"] == "" {
					err = errors.New("it was allowed without a trace")
				}
				if err == nil {
					err = c.Delete(ctx, o.GetName(), forget)
				}
				if ctx.Err() != nil {
					return
				}
				l.calls.Add(1)
				if err != nil {
					l.failed.Add(1)
					l.first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	t.Cleanup(l.end)
	return l
}

func (l *load) end() {
	l.stop()
	l.workers.Wait()
}

// stray is an app whose parent does not exist: refused under enforce.
func stray(t *testing.T, ns, name string) error {
	t.Helper()
	yes := true
	o := object("shop.example.org/v1", "App", ns, name, map[string]any{"size": int64(1)})
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "shop.example.org/v1", Kind: "App", Name: "nobody", UID: "no-such-uid", Controller: &yes}})
	_, err := as(t, hans).Resource(apps).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	return err
}

// TestCRDRemoved: policies that are deleted with their CRD stay in force, and new
// ones take effect when the CRD exists again, in the webhook and in the gate. A gate that did not know the new policy yet
// would never know that it was deleted either, and keep the old one in force for the next tests.
func TestCRDRemoved(t *testing.T) {
	ns := namespace(t, "crd")
	policy(t, "shop", map[string]any{"mode": "enforce"})
	guarded(t, ns)
	played(t, ns, "kept", nil)
	closedGate(t, ns, "kept")
	before, err := the.admin.Resource(hooks).Get(t.Context(), "kausality", metav1.GetOptions{})
	require.NoError(t, err)
	const name = "kausalities.kausality.io"
	require.NoError(t, the.admin.Resource(definition).Delete(t.Context(), name, forget))
	wait.For(t, "the CRD to go", wait.Patience, func(ctx context.Context) error {
		if _, err := the.admin.Resource(definition).Get(ctx, name, metav1.GetOptions{}); kerrors.IsNotFound(err) {
			return nil
		}
		return errors.New("it is still there")
	})
	until, n := time.Now().Add(5*time.Second), 0
	wait.For(t, "some time to pass", wait.Patience, func(ctx context.Context) error {
		n++
		if err := stray(t, ns, fmt.Sprintf("stray-%d", n)); !kerrors.IsInvalid(err) {
			t.Fatalf("the policy is no longer in force: %v", err)
		}
		now, err := the.admin.Resource(hooks).Get(ctx, "kausality", metav1.GetOptions{})
		if err != nil || now.GetUID() != before.GetUID() {
			t.Fatalf("the configuration went with the CRD: %v", err)
		}
		if time.Now().Before(until) {
			return errors.New("not yet")
		}
		return nil
	})
	closedGate(t, ns, "kept")
	_, err = the.run(t.Context(), "upgrade", "kausality", the.release, "--reuse-values") // it brings back what is missing
	require.NoError(t, err)
	wait.For(t, "the CRD to be back", wait.Patience, func(ctx context.Context) error {
		crd, err := the.admin.Resource(definition).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := controlplane.ConditionTrue(crd, "Established"); err != nil {
			return err
		}
		_, err = the.admin.Resource(kausality).List(ctx, metav1.ListOptions{})
		return err
	})
	policy(t, "shop", map[string]any{"mode": "log"})
	wait.For(t, "the new policy to hold", wait.Patience, func(context.Context) error { n++; return stray(t, ns, fmt.Sprintf("stray-%d", n)) })
	restoredTo(t, ns, "kept", "*")
}

// TestAPIServerRestart: all components recover.
func TestAPIServerRestart(t *testing.T) {
	ns := namespace(t, "restart")
	policy(t, "shop", map[string]any{"mode": "enforce"})
	guarded(t, ns)
	the.restarted = time.Now()
	require.NoError(t, the.Process(parts.KubeAPIServer).Restart())
	wait.For(t, "the API server to be back", wait.Patience, func(ctx context.Context) error {
		_, err := the.admin.Resource(namespaces).Get(ctx, ns, metav1.GetOptions{})
		return err
	})
	knowsRoles(t)
	the.authorized = time.Now()
	ns = namespace(t, "restarted")
	n := 0
	wait.For(t, "apps to be guarded again", wait.Patience, func(ctx context.Context) error {
		n++
		if err := revive(ctx); err != nil {
			return err
		}
		o, err := app(t, ns, fmt.Sprintf("again-%d", n))
		if err == nil && o.GetAnnotations()["kausality.io/trace"] == "" {
			err = errors.New("an app was created without a trace")
		}
		return err
	})
	require.NoError(t, merge(t, the.admin, kausality, "", "shop", map[string]any{"spec": map[string]any{"mode": "log"}}))
	// A process may lose its leadership a while after the API server is back.
	wait.For(t, "the policy to be in force again", wait.Patience, func(ctx context.Context) error {
		if err := revive(ctx); err != nil {
			return err
		}
		_, err := inForce(ctx, "shop")
		return err
	})
	wait.For(t, "a change of the policy to hold", wait.Patience, func(ctx context.Context) error {
		n++
		return errors.Join(revive(ctx), stray(t, ns, fmt.Sprintf("stray-%d", n)))
	})
	for _, p := range append([]*process{the.controller, the.gate}, the.webhooks...) {
		require.NoError(t, p.Err())
	}
}

// knowsRoles waits until the API server has read ClusterRoles, Roles and their bindings.
func knowsRoles(t *testing.T) {
	t.Helper()
	reviews := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"}
	for what, attributes := range map[string]map[string]any{
		"ClusterRoles": {"verb": "watch", "version": "v1", "resource": "namespaces"},
		"Roles":        {"verb": "patch", "group": "coordination.k8s.io", "resource": "leases", "namespace": home, "name": "kausality-webhook-heartbeat"},
	} {
		wait.For(t, "the API server to know the "+what, wait.Patience, func(ctx context.Context) error {
			o, err := the.admin.Resource(reviews).Create(ctx, object("authorization.k8s.io/v1", "SubjectAccessReview", "", "", map[string]any{
				"user": "system:serviceaccount:" + home + ":kausality-webhook", "resourceAttributes": attributes,
			}), metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if allowed, _, _ := unstructured.NestedBool(o.Object, "status", "allowed"); !allowed {
				return errors.New("it refuses the webhook")
			}
			return nil
		})
	}
}

// revive a process that ended, as a kubelet does: one that loses its leadership
// with the API server ends itself.
func revive(ctx context.Context) error {
	for _, p := range append([]*process{the.controller, the.gate}, the.webhooks...) {
		select {
		case <-p.Done():
			if err := p.Restart(); err != nil {
				return err
			}
			if err := p.Await(ctx); err != nil {
				return err
			}
		default:
		}
	}
	return nil
}

// TestRetained: when a policy is deleted, what it masked is restored before its
// kinds are unwatched (KR-12-09).
func TestRetained(t *testing.T) {
	const confirmed, closed = `kausality_gate_open_seconds_count{reason="Confirmed"} `, `kausality_gates{kind="Database",state="closed"} `
	ns, wasConfirmed, wasClosed := namespace(t, "retained"), counted(t, the.gate, confirmed), counted(t, the.gate, closed)
	policy(t, "shop", map[string]any{"mode": "enforce"})
	guarded(t, ns)
	played(t, ns, "orders", nil)
	closedGate(t, ns, "orders")
	served(t, the.gate, fmt.Sprint(closed, wasClosed+1, "\n"), fmt.Sprint(confirmed, wasConfirmed+1, "\n"),
		`kausality_external_drift{kind="Database"} 0`, `kausality_report_queue_length 0`)
	served(t, the.controller, `kausality_policies{policy="shop",ready="true"} 1`, `kausality_controller_writes_total{kind="MutatingWebhookConfiguration"}`)
	for _, w := range the.webhooks {
		served(t, w, "kausality_decision_seconds_count", "kausality_certificate_expiry_timestamp_seconds 1.", `kausality_dropped_reports_total 0`)
	}
	require.NoError(t, the.admin.Resource(kausality).Delete(t.Context(), "shop", forget))
	restoredTo(t, ns, "orders", "*")
	gone(t, map[schema.GroupVersionResource][]string{hooks: {"kausality"}, roles: {"kausality-gate-policies"}})
}

// served metrics of a process, each as the beginning of a line.
func served(t *testing.T, p *process, lines ...string) {
	t.Helper()
	for _, want := range lines {
		wait.For(t, p.Name()+" to serve "+want, wait.Patience, func(context.Context) error {
			text, err := fetch(p.Metrics, "metrics")
			if err == nil && !strings.Contains(text, "\n"+want) {
				err = fmt.Errorf("it serves %s", ours(text))
			}
			return err
		})
	}
}

// counted is the value of a counter of a process, 0 while it has none.
func counted(t *testing.T, p *process, line string) (n int) {
	t.Helper()
	text, err := fetch(p.Metrics, "metrics")
	require.NoError(t, err)
	if _, value, ok := strings.Cut(text, "\n"+line); ok {
		_, err = fmt.Sscan(value, &n)
		require.NoError(t, err)
	}
	return n
}

// ours are the lines about Kausality.
func ours(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "kausality_") && !strings.Contains(line, "_bucket") {
			out.WriteString(line)
		}
	}
	return out.String()
}

func gone(t *testing.T, what map[schema.GroupVersionResource][]string) {
	t.Helper()
	for r, names := range what {
		for _, name := range names {
			wait.For(t, r.Resource+" "+name+" to go", wait.Patience, func(ctx context.Context) error {
				_, err := the.admin.Resource(r).Get(ctx, name, metav1.GetOptions{})
				if err == nil {
					return errors.New("it is still there")
				}
				if kerrors.IsNotFound(err) {
					return nil
				}
				return err
			})
		}
	}
}

// TestPrecedenceWhileDown: whether an outage refuses changes follows the most
// specific policy and its overrides, as far as the API server can evaluate them.
func TestPrecedenceWhileDown(t *testing.T) {
	for _, ns := range []string{"strict", "loose", "overridden"} {
		namespace(t, ns)
	}
	policy(t, "all", map[string]any{"mode": "enforce", "overrides": []any{map[string]any{"namespaces": []any{"overridden"},
		"resources": []any{"apps"}, "mode": "log"}}})
	policy(t, "loose", map[string]any{"mode": "log", "namespaces": map[string]any{"names": []any{"loose"}}})
	guarded(t, "loose")
	guarded(t, "overridden")
	policy(t, "gold", map[string]any{"mode": "log", "namespaces": map[string]any{"names": []any{"strict"}},
		"objectSelector": map[string]any{"matchLabels": map[string]any{"tier": "gold"}}})
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
	create := func(r schema.GroupVersionResource, kind, ns, name, tier string) error {
		o := object("shop.example.org/v1", kind, ns, name, map[string]any{"size": int64(1)})
		o.SetLabels(map[string]string{"tier": tier})
		_, err := as(t, hans).Resource(r).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
		return err
	}
	wait.For(t, "the new policy to reach the API server", wait.Patience, func(context.Context) error {
		if err := create(apps, "App", "strict", "gold", "gold"); err != nil && !kerrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
	cases := map[string]struct {
		resource       schema.GroupVersionResource
		kind, ns, tier string
		passes         bool
	}{
		"Enforced": {resource: apps, kind: "App", ns: "strict", tier: "bronze"}, "Labelled": {resource: databases, kind: "Database", ns: "strict",
			tier: "gold", passes: true},
		"MoreSpecific": {resource: apps, kind: "App", ns: "loose", tier: "bronze", passes: true}, "Override": {resource: apps, kind: "App", ns: "overridden",
			tier: "bronze", passes: true},
		"OverrideForAnother": {resource: databases, kind: "Database", ns: "overridden", tier: "bronze"},
		"System":             {resource: apps, kind: "App", ns: "kube-system", tier: "bronze", passes: true}, "Public": {resource: apps,
			kind: "App", ns: "kube-public",
			tier: "bronze", passes: true}, "Own": {resource: apps,
			kind: "App", ns: home, tier: "bronze", passes: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := create(tc.resource, tc.kind, tc.ns, strings.ToLower(name), tc.tier); (err == nil) != tc.passes {
				t.Errorf("want it to pass: %v, got %v", tc.passes, err)
			}
		})
	}
}
