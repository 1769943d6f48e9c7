package operations

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kausality-io/function-kausality/test/installation"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

// stolen is a client with the token of the policy controller.
func stolen(t *testing.T) dynamic.Interface {
	t.Helper()
	file, err := the.ServiceAccountKubeconfig(t.Context(), site.Home, "kausality-controller", installation.Nothing)
	require.NoError(t, err)
	c, err := clientcmd.BuildConfigFromFlags("", file)
	require.NoError(t, err)
	c.UserAgent, c.WarningHandler = site.Thief, rest.NoWarnings{}
	out, err := dynamic.NewForConfig(c)
	require.NoError(t, err)
	return out
}

// attempt is a write with a stolen token. It applies an object, unless it is deleted or
// created.
type attempt struct {
	of      schema.GroupVersionResource
	object  *unstructured.Unstructured
	deletes bool
	creates bool
}

func (a attempt) by(t *testing.T, c dynamic.Interface) error {
	t.Helper()
	ns, name := a.object.GetNamespace(), a.object.GetName()
	r := c.Resource(a.of).Namespace(ns)
	dryRun := []string{metav1.DryRunAll} // what is allowed by mistake does no harm
	var err error
	switch {
	case a.deletes:
		err = r.Delete(t.Context(), name, metav1.DeleteOptions{DryRun: dryRun})
	case a.creates:
		_, err = r.Create(t.Context(), a.object, metav1.CreateOptions{DryRun: dryRun})
	default:
		_, err = r.Apply(t.Context(), name, a.object, metav1.ApplyOptions{FieldManager: site.Thief, Force: true, DryRun: dryRun})
	}
	return err
}

// roleWith rules that the policy controller never writes.
func roleWith(name string, edit map[string]any, rules ...any) *unstructured.Unstructured {
	o := site.Object("rbac.authorization.k8s.io/v1", "ClusterRole", "", name, nil)
	delete(o.Object, "spec")
	o.Object["rules"] = rules
	maps.Copy(o.Object, edit)
	return o
}

func rule(group, resource string, verbs ...any) map[string]any {
	return map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": verbs}
}

// hookTo an address.
func hookTo(kind, name string, client map[string]any, group string) *unstructured.Unstructured {
	o := site.Object("admissionregistration.k8s.io/v1", kind, "", name, nil)
	delete(o.Object, "spec")
	o.Object["webhooks"] = []any{map[string]any{"name": "x.example.org", "clientConfig": client, "sideEffects": "None",
		"admissionReviewVersions": []any{"v1"}, "rules": []any{map[string]any{"apiGroups": []any{group}, "apiVersions": []any{"*"},
			"resources": []any{"*"}, "operations": []any{"*"}}}}}
	return o
}

// attempts with the token of the policy controller, which are all refused.
func attempts() map[string]attempt {
	const webhooks, gates, own = "kausality-webhook-policies", "kausality-gate-policies", "kausality-controller-policies"
	registration := "admissionregistration.k8s.io/v1"
	bindingTo := func(name, policy string) *unstructured.Unstructured {
		return site.Object(registration, "ValidatingAdmissionPolicyBinding", "", name, map[string]any{"policyName": policy, "validationActions": []any{"Warn"}})
	}
	labelled := func(key string) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": gates, "labels": map[string]any{key: "true"}}}
	}
	secret := func(name, kind string) *unstructured.Unstructured {
		o := site.Object("v1", "Secret", site.Home, name, nil)
		delete(o.Object, "spec")
		o.Object["type"] = kind
		o.SetAnnotations(map[string]string{"kubernetes.io/service-account.name": "kausality-gate"})
		return o
	}
	const token = "kubernetes.io/service-account-token"
	serviceOf := func(name string) map[string]any {
		return map[string]any{"service": map[string]any{"namespace": site.Home, "name": name, "path": "/mutate"}}
	}
	const mutating, validating = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
	return map[string]attempt{
		"ForeignBinding": {of: site.Bindings, object: bindingTo("of-somebody", "kausality-orphan-protection")},
		"ForeignPolicy":  {of: site.AdmissionPolicies, object: site.Object(registration, "ValidatingAdmissionPolicy", "", "of-somebody", map[string]any{})},
		"OtherKausality": {of: site.Kausality, object: site.Object("kausality.io/v1alpha1", "Kausality", "", "lenient", map[string]any{"mode": "log",
			"resources": []any{map[string]any{"apiGroups": []any{"shop.example.org"}, "resources": []any{"apps"}}}})},
		"UnbindLimits": {of: site.Bindings, object: bindingTo("kausality-controller-roles", ""), deletes: true},
		"RelaxLimits":  {of: site.Bindings, object: bindingTo("kausality-controller-roles", "kausality-controller-roles")},
		"RemoveLimits": {of: site.AdmissionPolicies, object: bindingTo("kausality-controller-roles", ""), deletes: true},
		"RewriteLimits": {of: site.AdmissionPolicies, object: site.Object(registration, "ValidatingAdmissionPolicy", "", "kausality-controller-roles",
			map[string]any{})},
		"Everything":          {of: site.Roles, object: roleWith(own, nil, rule("*", "*", "*"))},
		"EverythingOfTheGate": {of: site.Roles, object: roleWith(gates, nil, rule("*", "*", "*"))},
		"SecretsOfAll":        {of: site.Roles, object: roleWith(own, nil, rule("", "secrets", "list"))},
		"Writes":              {of: site.Roles, object: roleWith(own, nil, rule("example.org", "*", "patch"))},
		"Escalates":           {of: site.Roles, object: roleWith(webhooks, nil, rule("rbac.authorization.k8s.io", "clusterroles", "escalate"))},
		"Creates":             {of: site.Roles, object: roleWith(gates, nil, rule("", "pods", "create"))},
		"Executes":            {of: site.Roles, object: roleWith(gates, nil, rule("", "pods/exec", "get"))},
		"WholeCore":           {of: site.Roles, object: roleWith(gates, nil, rule("", "*", "get"))},
		"Nodes":               {of: site.Roles, object: roleWith(gates, nil, rule("", "nodes", "patch"))},
		"Registration":        {of: site.Roles, object: roleWith(webhooks, nil, rule("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "patch"))},
		"URLs":                {of: site.Roles, object: roleWith(gates, nil, map[string]any{"nonResourceURLs": []any{"*"}, "verbs": []any{"get"}})},
		"Aggregates": {of: site.Roles, object: roleWith(own, map[string]any{"aggregationRule": map[string]any{"clusterRoleSelectors": []any{
			map[string]any{"matchLabels": map[string]any{"kubernetes.io/bootstrapping": "rbac-defaults"}}}}})},
		"AggregatedToAdmin": {of: site.Roles, object: roleWith(gates, labelled("rbac.authorization.k8s.io/aggregate-to-view"), rule("example.org", "*", "get"))},
		"AggregatedToOwn":   {of: site.Roles, object: roleWith(gates, labelled("rbac.kausality.io/aggregate-to-controller"), rule("example.org", "*", "patch"))},
		"OtherRole":         {of: site.Roles, object: roleWith("kausality-controller-base", nil, rule("example.org", "*", "list"))},
		"ClusterAdmin": {of: site.BindingsOfRoles, object: func() *unstructured.Unstructured {
			o := roleWith("mine", map[string]any{"kind": "ClusterRoleBinding", "roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io",
				"kind": "ClusterRole", "name": "cluster-admin"}})
			delete(o.Object, "rules")
			return o
		}()},
		"TokenOfTheGate":    {of: site.Secrets, object: secret("mine", token), creates: true},
		"TokenUnderOwnName": {of: site.Secrets, object: secret("kausality-webhook-authority", token), creates: true},
		"SecretElsewhere":   {of: site.Secrets, object: secret("kausality-webhook-certificate", "Opaque"), creates: true},
		"Pod": {of: site.Pods, object: podOf(site.Home, map[string]any{"containers": []any{map[string]any{"name": "x", "image": "x"}}}),
			creates: true},
		"HookToAnyURL":        {of: site.Hooks, object: hookTo(mutating, "kausality", map[string]any{"url": "https://203.0.113.7/mutate"}, "example.org")},
		"HookToOtherService":  {of: site.Hooks, object: hookTo(mutating, "kausality", serviceOf("mine"), "example.org")},
		"HookForEverything":   {of: site.Hooks, object: hookTo(mutating, "kausality", serviceOf("kausality-webhook"), "*")},
		"CheckAtOtherService": {of: site.Checks, object: hookTo(validating, "kausality-policies", serviceOf("mine"), "kausality.io")},
		"OtherHook":           {of: site.Hooks, object: hookTo(mutating, "mine", serviceOf("kausality-webhook"), "example.org")},
		"Policies": {of: site.Kausality, object: site.Object("kausality.io/v1alpha1", "Kausality", "", "mine", map[string]any{"resources": []any{
			map[string]any{"apiGroups": []any{"example.org"}, "resources": []any{"*"}}}})},
	}
}

// TestStolenControllerToken: with the token of the policy controller, a user gets no access that it does not have, binds no
// ValidatingAdmissionPolicy but its own, and has the API server call nothing else (KR-13-44).
func TestStolenControllerToken(t *testing.T) {
	the.Policy(t, "shop", map[string]any{"mode": "log"})
	c := stolen(t)
	all := attempts()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			if err := all[name].by(t, c); !kerrors.IsForbidden(err) {
				t.Errorf("want it forbidden, got %v", err)
			}
		})
	}
	_, err := c.Resource(site.Secrets).Namespace("").List(t.Context(), metav1.ListOptions{})
	require.True(t, kerrors.IsForbidden(err), "%v", err)
	_, err = c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(site.Home).Create(t.Context(),
		site.Object("authentication.k8s.io/v1", "TokenRequest", site.Home, "kausality-gate", map[string]any{}), metav1.CreateOptions{}, "token")
	require.Error(t, err)

	own := attempt{of: site.Roles, object: roleWith("kausality-gate-policies", nil, rule("shop.example.org", "*", "get", "delete"))}
	require.NoError(t, own.by(t, c), "its own work is not refused")
}
