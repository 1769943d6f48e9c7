package operations

import (
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/test/operations/site"
	"github.com/kausality-io/function-kausality/test/rights"
)

// guardedVerbs are what policies grant on the resources that they name, as TestRoles checks.
var guardedVerbs = map[string][]string{
	"webhook": {"get", "list", "watch", "patch"}, "gate": {"get", "list", "watch", "patch", "delete"}, "controller": {"list"},
}

// guardedResource stands for all that policies name.
const guardedResource = "guarded"

// TestRolesNameWhatIsUsed: each verb on each resource that the chart's roles grant was used by the
// ServiceAccount that has it, in a test of this package or in one that rights.Elsewhere names, which asserts that (KR-13-43).
func TestRolesNameWhatIsUsed(t *testing.T) {
	t.Parallel()
	if flag.Lookup("test.run").Value.String() != "" {
		t.Skip("what some tests use is not all")
	}
	granted := chartRights(t)
	used := usedRights(t)
	unnecessary := maps.Clone(rights.Elsewhere)
	maps.Copy(unnecessary, rights.Unplayed)
	for _, r := range slices.SortedFunc(maps.Keys(granted), func(a, b rights.Right) int { return strings.Compare(a.String(), b.String()) }) {
		delete(unnecessary, r.String())
		if !used[r] && rights.Elsewhere[r.String()]+rights.Unplayed[r.String()] == "" {
			t.Errorf("%s is granted, and no test uses it: remove it from the role", r)
		}
	}
	for text, test := range unnecessary {
		t.Errorf("%s is listed in test/rights (%s), and not granted", text, test)
	}
	if len(granted) < 50 {
		t.Errorf("the chart grants only %d rights", len(granted))
	}
}

// chartRights are what the roles of the chart grant to our components.
func chartRights(t *testing.T) map[rights.Right]bool {
	t.Helper()
	objects, err := the.Render(t.Context())
	require.NoError(t, err)
	out := map[rights.Right]bool{}
	for component, verbs := range guardedVerbs {
		for _, verb := range verbs {
			out[rights.Right{Component: component, Resource: guardedResource, Verb: verb}] = true
		}
	}
	for _, o := range objects {
		var role rbacv1.ClusterRole
		if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" || o.GetName() == "kausality-crossplane" ||
			o.GetName() == "kausality-viewer" || o.GetName() == "kausality-approver" {
			continue // what functions require is read by Crossplane, which test/e2e runs; and users have the roles for users
		}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role))
		for _, component := range bearers(t, objects, o) {
			for _, rule := range role.Rules {
				add(out, component, rule)
			}
		}
	}
	return out
}

// add the rights of a rule.
func add(to map[rights.Right]bool, component string, rule rbacv1.PolicyRule) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				to[rights.Right{Component: component, Group: group, Resource: resource, Verb: verb}] = true
			}
		}
	}
}

// bearers of a role: the components that it is bound to, or whose aggregated role has it.
func bearers(t *testing.T, objects []*unstructured.Unstructured, role *unstructured.Unstructured) (out []string) {
	t.Helper()
	if component, base := strings.CutSuffix(role.GetName(), "-base"); base {
		return []string{strings.TrimPrefix(component, "kausality-")}
	}
	for _, o := range objects {
		var binding rbacv1.RoleBinding
		if o.GetKind() != role.GetKind()+"Binding" {
			continue
		}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &binding))
		for _, s := range binding.Subjects {
			if binding.RoleRef.Name == role.GetName() && s.Namespace == site.Home {
				out = append(out, strings.TrimPrefix(s.Name, "kausality-"))
			}
		}
	}
	require.NotEmpty(t, out, "%s is bound to no component", role.GetName())
	return out
}

// usedRights are those that our components' requests needed; those on all that policies name are one.
func usedRights(t *testing.T) map[rights.Right]bool {
	t.Helper()
	out := map[rights.Right]bool{}
	the.Requests(t, func(e site.Request) { rights.Used(out, rights.Prefix, e.Request) })
	for r := range maps.Clone(out) {
		if strings.HasSuffix(r.Group, "example.org") {
			out[rights.Right{Component: r.Component, Resource: guardedResource, Verb: r.Verb}] = true
		}
	}
	return out
}
