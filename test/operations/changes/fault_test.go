package changes

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

// off stops the policy controller and deletes the webhook configuration, as in an
// emergency; the function that it returns restores both.
func off(t *testing.T) {
	t.Helper()
	the.Controller.Stop()
	t.Cleanup(func() {
		if err := the.Controller.Restart(); err != nil {
			t.Error(err)
		} else if err := the.Controller.Await(context.Background()); err != nil {
			t.Error(err)
		}
	})
	require.NoError(t, the.Admin.Resource(site.Hooks).Delete(t.Context(), "kausality", site.Forget))
}

// TestProtectionWhileDown: without the webhook, annotations that only Kausality
// writes are protected, and no masked managed resource can be deleted; users may
// change their annotations and everything else, and a controller's copies pass
// (KR-08-15, KR-12-05).
func TestProtectionWhileDown(t *testing.T) {
	the.Own(t)
	ns := the.Namespace(t, "down")
	the.Policy(t, "shop", map[string]any{
		"mode": "enforce", "overrides": []any{map[string]any{"namespaces": []any{the.Namespace(t, "lenient")}, "mode": "log"}},
		"resources": []any{
			map[string]any{"apiGroups": []any{"shop.example.org"}, "resources": []any{"*"}},
			map[string]any{"apiGroups": []any{"apps"}, "resources": []any{"deployments"}},
		},
	})
	the.Guarded(t, ns)
	the.Guarded(t, "lenient")
	_, err := the.App(t, ns, "mine")
	require.NoError(t, err)
	web := deploymentOf(t, ns)
	yes := true
	child := site.Object("shop.example.org/v1", "App", ns, "child", map[string]any{"size": int64(1)})
	parent, err := the.Admin.Resource(site.Apps).Namespace(ns).Get(t.Context(), "mine", metav1.GetOptions{})
	require.NoError(t, err)
	child.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "shop.example.org/v1", Kind: "App", Name: "mine", UID: parent.GetUID(), Controller: &yes}})
	_, err = the.As(t, site.Hans).Resource(site.Apps).Namespace(ns).Create(t.Context(), child, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = the.App(t, "lenient", "mine")
	require.NoError(t, err)
	off(t)
	mr := site.Object("shop.example.org/v1", "Database", ns, "masked", map[string]any{"managementPolicies": []any{"Observe"}})
	mr.SetAnnotations(map[string]string{"kausality.io/management-policies": `["*"]`})
	wait.For(t, "the API server to call no webhook", wait.Patience, func(context.Context) error {
		_, err := the.As(t, site.Hans).Resource(site.Databases).Namespace(ns).Create(t.Context(), mr, metav1.CreateOptions{})
		return err
	})
	wait.For(t, "the API server to protect annotations as this policy has it", wait.Patience, func(context.Context) error {
		return errors.Join(protectedBy(t, ns, "mine", true), protectedBy(t, "lenient", "mine", false), protectedStatusOf(t, ns, web, "kausality.io/trace", true,
			metav1.DryRunAll))
	})
	both := site.Annotate("kausality.io/trace", nil)
	both["spec"] = map[string]any{"size": int64(2)}
	const robot, controller = "system:serviceaccount:tools:robot", "system:serviceaccount:apps:controller"
	cases := map[string]struct {
		user, ns, name string
		patch          map[string]any
		invalid        bool
	}{
		"Trace":           {user: site.Hans, ns: ns, name: "mine", patch: site.Annotate("kausality.io/trace", "[]"), invalid: true},
		"TraceRemoved":    {user: site.Hans, ns: ns, name: "mine", patch: site.Annotate("kausality.io/trace", nil), invalid: true},
		"RemovedWithSpec": {user: site.Hans, ns: ns, name: "mine", patch: both, invalid: true},
		"Latch":           {user: site.Hans, ns: ns, name: "mine", patch: site.Annotate("kausality.io/settled-generation", "9"), invalid: true},
		"LatchedState": {user: site.Hans, ns: ns, name: "mine", patch: site.Annotate("kausality.io/settled-state", "9,0123456789abcdef"),
			invalid: true},
		"Robot": {user: robot, ns: ns, name: "mine", patch: site.Annotate("kausality.io/trace", "[]"), invalid: true},
		"RobotOnRoot": {user: controller, ns: ns, name: "mine", patch: site.Annotate("kausality.io/phase", "initialized"),
			invalid: true},
		"ControllerCopies": {user: controller, ns: ns, name: "child", patch: site.Annotate("kausality.io/updaters", "abcde")},
		"Freeze":           {user: site.Hans, ns: ns, name: "mine", patch: site.Annotate("kausality.io/freeze", `{"user":"hans"}`)},
		"Approval":         {user: site.Hans, ns: ns, name: "mine", patch: site.Annotate("kausality.io/approve-0123456789abcdef", "once")},
		"Spec":             {user: site.Hans, ns: ns, name: "mine", patch: map[string]any{"spec": map[string]any{"size": int64(3)}}},
		"OtherAnnotation":  {user: site.Hans, ns: ns, name: "mine", patch: site.Annotate("example.org/a", "b")},
		"LogMode":          {user: site.Hans, ns: "lenient", name: "mine", patch: site.Annotate("kausality.io/trace", "[]")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := site.Merge(t, the.As(t, tc.user), site.Apps, tc.ns, tc.name, tc.patch)
			if tc.invalid && (!kerrors.IsInvalid(err) || !strings.Contains(err.Error(), "Kausality alone writes")) || !tc.invalid && err != nil {
				t.Errorf("want it refused: %v, got %v", tc.invalid, err)
			}
		})
	}
	protectedStatus(t, ns, web)
	if err := the.As(t, site.Hans).Resource(site.Databases).Namespace(ns).Delete(t.Context(), "masked", site.Forget); !kerrors.IsForbidden(err) {
		t.Errorf("a masked managed resource: want 403, got %v", err)
	}
	if err := site.Merge(t, the.As(t, site.Hans), site.Databases, ns, "masked", site.Annotate("kausality.io/management-policies", nil)); !kerrors.IsInvalid(err) {
		t.Errorf("what is remembered of a masked managed resource: want 422, got %v", err)
	}
	require.NoError(t, site.Merge(t, the.As(t, site.Hans), site.Databases, ns, "masked", site.Annotate("kausality.io/deletion", "orphan")))
	require.NoError(t, the.As(t, site.Hans).Resource(site.Databases).Namespace(ns).Delete(t.Context(), "masked", site.Forget))
}

// deploymentOf hans, and its name.
func deploymentOf(t *testing.T, ns string) string {
	t.Helper()
	labels := map[string]any{"app": "web"}
	o := site.Object("apps/v1", "Deployment", ns, "web", map[string]any{
		"replicas": int64(0), "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": "registry.example.org/web:1"}}}},
	})
	_, err := the.As(t, site.Hans).Resource(site.Deployments).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	return o.GetName()
}

// protectedStatus of a Deployment, whose status stores annotations: no annotation of
// Kausality is changed by it, users' included, and everything else is (KR-13-54).
func protectedStatus(t *testing.T, ns, name string) {
	t.Helper()
	for key, refused := range map[string]bool{"kausality.io/approve-0123456789abcdef": true, "kausality.io/trace": true, "example.org/a": false} {
		if err := protectedStatusOf(t, ns, name, key, refused); err != nil {
			t.Error(err)
		}
	}
}

// protectedStatusOf a Deployment: whether an annotation is, by a status of a robot, which may be a dry run.
func protectedStatusOf(t *testing.T, ns, name, key string, refused bool, dryRun ...string) error {
	t.Helper()
	patch := site.Annotate(key, "[]")
	patch["status"] = map[string]any{"observedGeneration": int64(1)}
	raw, err := json.Marshal(patch)
	require.NoError(t, err)
	_, err = the.As(t, "system:serviceaccount:tools:robot").Resource(site.Deployments).Namespace(ns).Patch(t.Context(), name, types.MergePatchType, raw,
		metav1.PatchOptions{FieldManager: "robot", DryRun: dryRun}, "status")
	if refused && !kerrors.IsInvalid(err) || !refused && err != nil {
		return fmt.Errorf("%s by a status: want it refused: %v, got %v", key, refused, err) //nolint:errorlint // nil is an answer, too
	}
	return nil
}

// protectedBy the API server: whether the trace of an app is, in a Namespace; nothing is stored. A new policy reaches it within a second or two.
func protectedBy(t *testing.T, ns, name string, refused bool) error {
	t.Helper()
	_, err := the.As(t, site.Hans).Resource(site.Apps).Namespace(ns).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"kausality.io/trace":null}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if refused && !kerrors.IsInvalid(err) || !refused && err != nil {
		return fmt.Errorf("the trace of an app in %s: want it refused: %v, got %v", ns, refused, err) //nolint:errorlint // nil is an answer, too
	}
	return nil
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
		c := the.As(t, site.Hans).Resource(site.Apps).Namespace(ns)
		l.workers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				o := site.Object("shop.example.org/v1", "App", ns, fmt.Sprintf("load-%d-%d", worker, n), map[string]any{"size": int64(n)})
				got, err := c.Create(ctx, o, metav1.CreateOptions{})
				if err == nil && got.GetAnnotations()["kausality.io/trace"] == "" {
					err = errors.New("it was allowed without a trace")
				}
				if err == nil {
					err = c.Delete(ctx, o.GetName(), site.Forget)
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

// TestCRDRemoved: policies that are deleted with their CRD stay in force, and new
// ones take effect when the CRD exists again, in the webhook and in the gate. A gate that did not know the new policy yet
// would never know that it was deleted either, and keep the old one in force for the next tests.
func TestCRDRemoved(t *testing.T) {
	the.Own(t)
	ns := the.Namespace(t, "crd")
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	the.Played(t, ns, "kept", nil)
	the.ClosedGate(t, ns, "kept")
	before, err := the.Admin.Resource(site.Hooks).Get(t.Context(), "kausality", metav1.GetOptions{})
	require.NoError(t, err)
	const name = "kausalities.kausality.io"
	require.NoError(t, the.Admin.Resource(site.Definition).Delete(t.Context(), name, site.Forget))
	wait.For(t, "the CRD to go", wait.Patience, func(ctx context.Context) error {
		if _, err := the.Admin.Resource(site.Definition).Get(ctx, name, metav1.GetOptions{}); kerrors.IsNotFound(err) {
			return nil
		}
		return errors.New("it is still there")
	})
	until, n := time.Now().Add(5*time.Second), 0
	wait.For(t, "some time to pass", wait.Patience, func(ctx context.Context) error {
		n++
		if err := the.Stray(t, ns, fmt.Sprintf("stray-%d", n)); !kerrors.IsInvalid(err) {
			t.Fatalf("the policy is no longer in force: %v", err)
		}
		now, err := the.Admin.Resource(site.Hooks).Get(ctx, "kausality", metav1.GetOptions{})
		if err != nil || now.GetUID() != before.GetUID() {
			t.Fatalf("the configuration went with the CRD: %v", err)
		}
		if time.Now().Before(until) {
			return errors.New("not yet")
		}
		return nil
	})
	the.ClosedGate(t, ns, "kept")
	_, err = the.RunHelm(t.Context(), "upgrade", "kausality", the.Release, "--reuse-values") // it brings back what is missing
	require.NoError(t, err)
	wait.For(t, "the CRD to be back", wait.Patience, func(ctx context.Context) error {
		crd, err := the.Admin.Resource(site.Definition).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := controlplane.ConditionTrue(crd, "Established"); err != nil {
			return err
		}
		_, err = the.Admin.Resource(site.Kausality).List(ctx, metav1.ListOptions{})
		return err
	})
	the.Policy(t, "shop", map[string]any{"mode": "log"})
	wait.For(t, "the new policy to hold", wait.Patience, func(context.Context) error { n++; return the.Stray(t, ns, fmt.Sprintf("stray-%d", n)) })
	the.RestoredTo(t, ns, "kept", "*")
}

// TestAPIServerRestart: all components recover.
func TestAPIServerRestart(t *testing.T) {
	the.Own(t)
	ns := the.Namespace(t, "restart")
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	the.Restarted = time.Now()
	require.NoError(t, the.Process(parts.KubeAPIServer).Restart())
	wait.For(t, "the API server to be back", wait.Patience, func(ctx context.Context) error {
		_, err := the.Admin.Resource(site.Namespaces).Get(ctx, ns, metav1.GetOptions{})
		return err
	})
	knowsRoles(t)
	the.Authorized = time.Now()
	ns = the.Namespace(t, "restarted")
	n := 0
	wait.For(t, "apps to be guarded again", wait.Patience, func(ctx context.Context) error {
		n++
		if err := the.Revive(ctx); err != nil {
			return err
		}
		o, err := the.App(t, ns, fmt.Sprintf("again-%d", n))
		if err == nil && o.GetAnnotations()["kausality.io/trace"] == "" {
			err = errors.New("an app was created without a trace")
		}
		return err
	})
	require.NoError(t, site.Merge(t, the.Admin, site.Kausality, "", "shop", map[string]any{"spec": map[string]any{"mode": "log"}}))
	// A process may lose its leadership a while after the API server is back.
	wait.For(t, "the policy to be in force again", wait.Patience, func(ctx context.Context) error {
		if err := the.Revive(ctx); err != nil {
			return err
		}
		_, err := the.InForce(ctx, "shop")
		return err
	})
	wait.For(t, "a change of the policy to hold", wait.Patience, func(ctx context.Context) error {
		n++
		return errors.Join(the.Revive(ctx), the.Stray(t, ns, fmt.Sprintf("stray-%d", n)))
	})
	for _, p := range append([]*site.Process{the.Controller, the.Gate}, the.Webhooks...) {
		require.NoError(t, p.Err())
	}
}

// knowsRoles waits until the API server has read ClusterRoles, Roles and their bindings.
func knowsRoles(t *testing.T) {
	t.Helper()
	reviews := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"}
	for what, attributes := range map[string]map[string]any{
		"ClusterRoles": {"verb": "watch", "version": "v1", "resource": "namespaces"},
		"Roles":        {"verb": "patch", "group": "coordination.k8s.io", "resource": "leases", "namespace": site.Home, "name": "kausality-webhook-heartbeat"},
	} {
		wait.For(t, "the API server to know the "+what, wait.Patience, func(ctx context.Context) error {
			o, err := the.Admin.Resource(reviews).Create(ctx, site.Object("authorization.k8s.io/v1", "SubjectAccessReview", "", "", map[string]any{
				"user": "system:serviceaccount:" + site.Home + ":kausality-webhook", "resourceAttributes": attributes,
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

// TestRetained: when a policy is deleted, what it masked is restored before its
// kinds are unwatched (KR-12-09).
func TestRetained(t *testing.T) {
	the.Own(t)
	const confirmed, closed = `kausality_gate_open_seconds_count{reason="Confirmed"} `, `kausality_gates{kind="Database",state="closed"} `
	ns, wasConfirmed := the.Namespace(t, "retained"), counted(t, the.Gate, confirmed)
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	the.Played(t, ns, "orders", nil)
	the.ClosedGate(t, ns, "orders")
	// The databases of earlier tests may still be restored and deleted.
	wait.For(t, "the metrics to count the gates that are closed", wait.Patience, func(ctx context.Context) error {
		want, err := the.ClosedGates(ctx)
		if is := counted(t, the.Gate, closed); err == nil && is != want {
			err = fmt.Errorf("they count %d of %d", is, want)
		}
		if is := counted(t, the.Gate, confirmed); err == nil && is <= wasConfirmed {
			err = fmt.Errorf("%d changes are confirmed, before %d", is, wasConfirmed)
		}
		return err
	})
	site.Served(t, the.Gate, `kausality_external_drift{kind="Database"} 0`, `kausality_report_queue_length 0`)
	site.Served(t, the.Controller, `kausality_policies{policy="shop",ready="true"} 1`, `kausality_controller_writes_total{kind="MutatingWebhookConfiguration"}`)
	for _, w := range the.Webhooks {
		site.Served(t, w, "kausality_decision_seconds_count", "kausality_certificate_expiry_timestamp_seconds 1.", `kausality_dropped_reports_total 0`)
	}
	require.NoError(t, the.Admin.Resource(site.Kausality).Delete(t.Context(), "shop", site.Forget))
	the.RestoredTo(t, ns, "orders", "*")
	gone(t, map[schema.GroupVersionResource][]string{site.Hooks: {"kausality"}, site.Roles: {"kausality-gate-policies"}})
}

// counted is the value of a counter of a process, 0 while it has none.
func counted(t *testing.T, p *site.Process, line string) (n int) {
	t.Helper()
	text, err := site.Fetch(p.Metrics, "metrics")
	require.NoError(t, err)
	if _, value, ok := strings.Cut(text, "\n"+line); ok {
		_, err = fmt.Sscan(value, &n)
		require.NoError(t, err)
	}
	return n
}

func gone(t *testing.T, what map[schema.GroupVersionResource][]string) {
	t.Helper()
	for r, names := range what {
		for _, name := range names {
			wait.For(t, r.Resource+" "+name+" to go", wait.Patience, func(ctx context.Context) error {
				_, err := the.Admin.Resource(r).Get(ctx, name, metav1.GetOptions{})
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
	the.Own(t)
	for _, ns := range []string{"strict", "loose", "overridden"} {
		the.Namespace(t, ns)
	}
	the.Policy(t, "all", map[string]any{"mode": "enforce", "overrides": []any{map[string]any{"namespaces": []any{"overridden"},
		"resources": []any{"apps"}, "mode": "log"}}})
	the.Policy(t, "loose", map[string]any{"mode": "log", "namespaces": map[string]any{"names": []any{"loose"}}})
	the.Guarded(t, "loose")
	the.Guarded(t, "overridden")
	the.Policy(t, "gold", map[string]any{"mode": "log", "namespaces": map[string]any{"names": []any{"strict"}},
		"objectSelector": map[string]any{"matchLabels": map[string]any{"tier": "gold"}}})
	for _, p := range the.Webhooks {
		p.Stop()
	}
	t.Cleanup(func() {
		for _, p := range the.Webhooks {
			if err := p.Restart(); err != nil {
				t.Error(err)
			} else if err := p.Await(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	create := func(r schema.GroupVersionResource, kind, ns, name, tier string) error {
		o := site.Object("shop.example.org/v1", kind, ns, name, map[string]any{"size": int64(1)})
		o.SetLabels(map[string]string{"tier": tier})
		_, err := the.As(t, site.Hans).Resource(r).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
		return err
	}
	wait.For(t, "the new policy to reach the API server", wait.Patience, func(context.Context) error {
		if err := create(site.Apps, "App", "strict", "gold", "gold"); err != nil && !kerrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
	cases := map[string]struct {
		resource       schema.GroupVersionResource
		kind, ns, tier string
		passes         bool
	}{
		"Enforced": {resource: site.Apps, kind: "App", ns: "strict", tier: "bronze"}, "Labelled": {resource: site.Databases, kind: "Database", ns: "strict",
			tier: "gold", passes: true},
		"MoreSpecific": {resource: site.Apps, kind: "App", ns: "loose", tier: "bronze", passes: true}, "Override": {resource: site.Apps, kind: "App",
			ns:   "overridden",
			tier: "bronze", passes: true},
		"OverrideForAnother": {resource: site.Databases, kind: "Database", ns: "overridden", tier: "bronze"},
		"System":             {resource: site.Apps, kind: "App", ns: "kube-system", tier: "bronze", passes: true}, "Public": {resource: site.Apps,
			kind: "App", ns: "kube-public",
			tier: "bronze", passes: true}, "Own": {resource: site.Apps,
			kind: "App", ns: site.Home, tier: "bronze", passes: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := create(tc.resource, tc.kind, tc.ns, strings.ToLower(name), tc.tier); (err == nil) != tc.passes {
				t.Errorf("want it to pass: %v, got %v", tc.passes, err)
			}
		})
	}
}
