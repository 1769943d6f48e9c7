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
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

// TestPolicy: a policy takes effect without a restart, its status reports it, and
// its mode applies, also after a change; with the rights of the chart alone.
func TestPolicy(t *testing.T) {
	ns := the.Namespace(t, "policy")
	k := the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	if n, _, _ := unstructured.NestedInt64(k.Object, "status", "resources"); n != 2 {
		t.Errorf("want 2 resources, got %d", n)
	}
	if n, _, _ := unstructured.NestedInt64(k.Object, "status", "managedResources"); n != 1 {
		t.Errorf("want 1 managed resource, got %d", n)
	}
	e, err := the.Entry(t.Context(), "shop.admission.kausality.io")
	require.NoError(t, err)
	if e["failurePolicy"] != "Fail" || e["timeoutSeconds"].(int64) != 5 || e["reinvocationPolicy"] != "IfNeeded" {
		t.Errorf("got %v", e)
	}
	the.Guarded(t, ns)
	// an object whose parent does not exist is refused under enforce and not in log
	stray := func(name string) error {
		yes := true
		o := site.Object("shop.example.org/v1", "App", ns, name, map[string]any{"size": int64(1)})
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "shop.example.org/v1", Kind: "App", Name: "nobody", UID: "no-such-uid", Controller: &yes}})
		_, err := the.As(t, site.Hans).Resource(site.Apps).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
		return err
	}
	if err := stray("stray-1"); !kerrors.IsInvalid(err) {
		t.Errorf("enforced by the policy: want 422, got %v", err)
	}
	require.NoError(t, site.Merge(t, the.Admin, site.Kausality, "", "shop",
		map[string]any{"spec": map[string]any{"overrides": []any{map[string]any{"namespaces": []any{ns}, "mode": "log"}}}}))
	the.AwaitPolicy(t, "shop")
	n := 1
	wait.For(t, "the override to hold", wait.Patience, func(context.Context) error { n++; return stray(fmt.Sprintf("stray-%d", n)) })
	e, err = the.Entry(t.Context(), "shop.admission.kausality.io")
	require.NoError(t, err)
	if e["failurePolicy"] != "Ignore" {
		t.Errorf("the override comes first and only logs, got %v", e["failurePolicy"])
	}
}

// TestGateSettings: the gate settings of a policy apply until it is changed: the
// closed policies, and the ignored fields.
func TestGateSettings(t *testing.T) {
	ns := the.Namespace(t, "settings")
	the.Policy(t, "shop", map[string]any{"mode": "enforce", "gate": map[string]any{"closed": []any{"Observe", "LateInitialize"},
		"ignorePaths": []any{"spec.forProvider.size"}}})
	the.Guarded(t, ns)
	the.Played(t, ns, "tagged", nil)
	closedAs := func(want string) {
		t.Helper()
		wait.For(t, "the gate to close to "+want, wait.Patience, func(ctx context.Context) error {
			_, p, masked, err := the.GateOf(ctx, ns, "tagged")
			if err == nil && (p != want || !masked) {
				err = fmt.Errorf("managementPolicies are %s, masked %v", p, masked)
			}
			return err
		})
	}
	closedAs("Observe,LateInitialize")
	the.Observes(t, ns, "tagged", 9)
	site.Served(t, the.Gate, `kausality_external_drift{kind="Database"} 0`)
	require.NoError(t, site.Merge(t, the.Admin, site.Kausality, "", "shop", map[string]any{"spec": map[string]any{"gate": map[string]any{"ignorePaths": nil}}}))
	the.AwaitPolicy(t, "shop")
	the.ExternalDrift(t, "tagged")
	site.Served(t, the.Gate, `kausality_external_drift{kind="Database"} 1`)
}

// TestDeniedResources: no policy can guard resources that a cluster needs to run, and a
// policy must be consistent (KR-12-04).
func TestDeniedResources(t *testing.T) {
	resources := func(group string, names ...any) map[string]any {
		return map[string]any{"resources": []any{map[string]any{"apiGroups": []any{group}, "resources": names}}}
	}
	with := func(key string, value any) map[string]any {
		s := resources("shop.example.org", "apps")
		s[key] = value
		return s
	}
	cases := map[string]map[string]any{
		"AllGroups": resources("*", "apps"), "GroupPattern": resources("*.example.org", "apps"), "Leases": resources("coordination.k8s.io", "leases"),
		"Events": resources("", "events"), "NewEvents": resources("events.k8s.io", "*"), "Nodes": resources("", "nodes"), "Endpoints": resources("", "endpoints"),
		"EndpointSlices": resources("discovery.k8s.io", "endpointslices"), "TokenReviews": resources("authentication.k8s.io", "tokenreviews"),
		"AccessReviews": resources("authorization.k8s.io", "subjectaccessreviews"), "Own": resources("kausality.io", "drifts"),
		"Webhooks": resources("admissionregistration.k8s.io", "*"), "WholeCore": resources("", "*"), "Subresource": resources("shop.example.org", "apps/status"),
		"Nothing": {"resources": []any{}}, "Mode": with("mode", "strict"), "Actors": with("otherActors", "Maybe"),
		"EmptyOverride":    with("overrides", []any{map[string]any{"mode": "log"}}),
		"NamesAndSelector": with("namespaces", map[string]any{"names": []any{"a"}, "selector": map[string]any{"matchLabels": map[string]any{"a": "b"}}}),
		"Deadline":         with("gate", map[string]any{"deadline": "10s"}), "Closed": with("gate", map[string]any{"closed": []any{"Observe", "Update"}}),
		"IgnorePaths": with("gate", map[string]any{"ignorePaths": []any{"status.atProvider"}}),
		"Excluded":    {"resources": []any{map[string]any{"apiGroups": []any{"shop.example.org"}, "resources": []any{"apps"}, "excluded": []any{"databases"}}}},
	}
	for name, spec := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := the.Admin.Resource(site.Kausality).Create(t.Context(), site.Object("kausality.io/v1alpha1", "Kausality", "", strings.ToLower(name),
				spec), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if !kerrors.IsInvalid(err) {
				t.Errorf("want it refused as invalid, got %v", err)
			}
		})
	}
	good := with("gate", map[string]any{"deadline": "90m", "closed": []any{"Observe", "LateInitialize"}, "ignorePaths": []any{"spec.forProvider.tags"}})
	_, err := the.Admin.Resource(site.Kausality).Create(t.Context(), site.Object("kausality.io/v1alpha1", "Kausality", "", "good", good),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
}

// TestRepair: edits of our fields by others are undone, their own fields stay, what
// is deleted is created again, and without changes nothing is written (KR-12-02).
func TestRepair(t *testing.T) {
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	wait.For(t, "the foreign edit to be undone", wait.Patience, func(ctx context.Context) error {
		patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"example.org/note": "ours"}}}
		if err := site.Merge(t, the.Admin, site.Hooks, "", "kausality", patch); err != nil {
			return err
		}
		e, err := the.Entry(ctx, "shop.admission.kausality.io")
		if err != nil {
			return err
		}
		e["failurePolicy"], e["timeoutSeconds"] = "Ignore", int64(30)
		all, err := the.Entries(ctx)
		if err != nil {
			return err
		}
		list := []any{}
		for _, other := range all {
			if other["name"] == e["name"] {
				other = e
			}
			list = append(list, other)
		}
		return site.Merge(t, the.Admin, site.Hooks, "", "kausality", map[string]any{"webhooks": list})
	})
	wait.For(t, "the foreign edit to be undone", wait.Patience, func(ctx context.Context) error {
		e, err := the.Entry(ctx, "shop.admission.kausality.io")
		if err == nil && (e["failurePolicy"] != "Fail" || e["timeoutSeconds"] != int64(5)) {
			err = fmt.Errorf("failurePolicy %v, timeoutSeconds %v", e["failurePolicy"], e["timeoutSeconds"])
		}
		return err
	})
	o, err := the.Admin.Resource(site.Hooks).Get(t.Context(), "kausality", metav1.GetOptions{})
	require.NoError(t, err)
	if o.GetAnnotations()["example.org/note"] != "ours" {
		t.Error("an annotation of another user is gone")
	}
	for r, name := range map[schema.GroupVersionResource]string{site.Hooks: "kausality", site.Roles: "kausality-webhook-policies",
		site.Bindings: "kausality-orphan-protection"} {
		before, err := the.Admin.Resource(r).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		require.NoError(t, the.Admin.Resource(r).Delete(t.Context(), name, site.Forget))
		wait.For(t, name+" to come back", wait.Patience, func(ctx context.Context) error {
			now, err := the.Admin.Resource(r).Get(ctx, name, metav1.GetOptions{})
			if err == nil && now.GetUID() == before.GetUID() {
				err = errors.New("it is still the old one")
			}
			return err
		})
	}
}

// TestRoles: policies grant webhook and gate access to what is guarded, and the
// access is removed with them (KR-12-02).
func TestRoles(t *testing.T) {
	the.Policy(t, "shop", map[string]any{"mode": "log", "resources": []any{map[string]any{"apiGroups": []any{"apps"}, "resources": []any{"deployments"}}}})
	without(t, shopGroup) // what the test before guarded
	for _, name := range []string{"kausality-webhook-policies", "kausality-gate-policies", "kausality-controller-policies"} {
		o, err := the.Admin.Resource(site.Roles).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		list, _, _ := unstructured.NestedSlice(o.Object, "rules")
		given := ""
		for _, r := range list {
			given += fmt.Sprint(r.(map[string]any)["apiGroups"], r.(map[string]any)["resources"], r.(map[string]any)["verbs"])
		}
		component := strings.TrimSuffix(strings.TrimPrefix(name, "kausality-"), "-policies")
		want := fmt.Sprint([]string{"apps"}, []string{"deployments"}, guardedVerbs[component])
		if name == "kausality-controller-policies" {
			want = "" // no object of Kubernetes' own groups is masked
		}
		if given != want {
			t.Errorf("%s: want %q, got %q", name, want, given)
		}
		if len(o.GetOwnerReferences()) != 1 {
			t.Errorf("%s has no owner, and would outlive the installation", name)
		}
	}
	require.NoError(t, the.Admin.Resource(site.Kausality).Delete(t.Context(), "shop", site.Forget))
	wait.For(t, "the configuration to go with the last policy", wait.Patience, func(ctx context.Context) error {
		_, err := the.Admin.Resource(site.Hooks).Get(ctx, "kausality", metav1.GetOptions{})
		if err == nil {
			return errors.New("it is still there")
		}
		if kerrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// TestNamespaceMode: an invalid mode is refused when it is written.
func TestNamespaceMode(t *testing.T) {
	ns := the.Namespace(t, "moody")
	if err := site.Merge(t, the.Admin, site.Namespaces, "", ns, site.Annotate("kausality.io/mode", "audit")); !kerrors.IsInvalid(err) {
		t.Errorf("want 422, got %v", err)
	}
	for _, good := range []any{"enforce", "log", nil} {
		require.NoError(t, site.Merge(t, the.Admin, site.Namespaces, "", ns, site.Annotate("kausality.io/mode", good)))
	}
}

// TestNamespaceFreeze: in a Namespace where no request is decided about, a freeze is refused when it is written (KR-14-38).
func TestNamespaceFreeze(t *testing.T) {
	for _, exempt := range []string{"kube-system", "kube-public"} {
		if err := site.Merge(t, the.Admin, site.Namespaces, "", exempt, site.Annotate("kausality.io/freeze", "true")); !kerrors.IsInvalid(err) {
			t.Errorf("%s: want 422, got %v", exempt, err)
		}
	}
	ns := the.Namespace(t, "cold")
	for _, value := range []any{"true", `{"user":"hans"}`, nil} {
		require.NoError(t, site.Merge(t, the.Admin, site.Namespaces, "", ns, site.Annotate("kausality.io/freeze", value)))
	}
}

// TestSteady: while everything is up to date, nothing is written.
func TestSteady(t *testing.T) {
	the.Policy(t, "shop", map[string]any{"mode": "log"})
	the.StatusOf(t, "shop", "Answering True", "allows")
	// The webhook configuration is left out: its bundle is renewed all the time here.
	versions := func() string {
		var out strings.Builder
		for _, at := range []struct {
			resource schema.GroupVersionResource
			name     string
		}{{resource: site.Roles, name: "kausality-webhook-policies"}, {resource: site.Roles, name: "kausality-gate-policies"}, {resource: site.Kausality,
			name: "shop"}, {resource: site.Bindings,
			name: "kausality-orphan-protection"}} {
			o, err := the.Admin.Resource(at.resource).Get(t.Context(), at.name, metav1.GetOptions{})
			require.NoError(t, err)
			fmt.Fprintf(&out, "%s %s\n", at.name, o.GetResourceVersion())
		}
		return out.String()
	}
	last := ""
	wait.For(t, "the versions to stop changing", wait.Patience, func(context.Context) error {
		if now := versions(); now != last {
			last = now
			return fmt.Errorf("they moved: %s", now)
		}
		return nil
	})
	// A new CRD makes the controller reconcile everything again.
	require.NoError(t, the.Define(t.Context(), controlplane.Kind{Group: "other.example.org", Kind: "App"}))
	t.Cleanup(func() {
		_ = the.Admin.Resource(site.Definition).Delete(context.Background(), "apps.other.example.org", site.Forget)
	})
	deadline := time.Now().Add(3 * time.Second)
	wait.For(t, "some time to pass", wait.Patience, func(context.Context) error {
		if now := last; versions() != now {
			t.Fatalf("something was written: %s, before %s", versions(), now)
		}
		if time.Now().Before(deadline) {
			return errors.New("not yet")
		}
		return nil
	})
}
