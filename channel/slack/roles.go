package slack

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// WriteRoles writes the roles of the process for a configuration: Drifts and its DriftReceiver, clicks and the Lease in its own Namespace, and the users and
// groups as whom it may act, by their names (KR-17-10).
func WriteRoles(out io.Writer, c *Config, namespace string) error {
	for _, o := range roles(c, namespace) {
		raw, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("cannot encode a role: %w", err)
		}
		if _, err := fmt.Fprintf(out, "---\n%s", raw); err != nil {
			return err
		}
	}
	return nil
}

// roles returns the roles as objects.
func roles(c *Config, namespace string) []any {
	meta := func(ns string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: Component, Namespace: ns, Labels: map[string]string{"app.kubernetes.io/managed-by": "kausality"}}
	}
	kind := func(k string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: k}
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: Component}}
	ref := func(k string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: k, Name: Component}
	}
	return []any{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta(namespace)},
		&rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: meta(""), Rules: clusterRules(c)},
		&rbacv1.ClusterRoleBinding{TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: meta(""), RoleRef: ref("ClusterRole"), Subjects: subjects},
		&rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: meta(namespace), Rules: []rbacv1.PolicyRule{
			rule("", []string{"configmaps"}, "get", "list", "create", "update", "delete"),
			rule("coordination.k8s.io", []string{"leases"}, "create"),
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{Component}, Verbs: []string{"get", "update"}},
		}},
		&rbacv1.RoleBinding{TypeMeta: kind("RoleBinding"), ObjectMeta: meta(namespace), RoleRef: ref("Role"), Subjects: subjects},
	}
}

// clusterRules returns the rules of the ClusterRole of the process.
func clusterRules(c *Config) []rbacv1.PolicyRule {
	out := []rbacv1.PolicyRule{
		rule(v1alpha1.Group, []string{v1alpha1.ResourceDrifts}, "get", "list", "watch"),
		rule(v1alpha1.Group, []string{v1alpha1.ResourceDrifts + "/status", v1alpha1.ResourceDriftReceivers + "/status"}, "patch"),
		rule(v1alpha1.Group, []string{v1alpha1.ResourceDriftReceivers}, "get", "create"),
		rule("", []string{"events"}, "create"),
		rule("events.k8s.io", []string{"events"}, "create", "patch"),
	}
	return append(out, impersonationRules(c)...)
}

// impersonationRules permit to act as users and groups: as all that is not listed only where the configuration declares that.
func impersonationRules(c *Config) (out []rbacv1.PolicyRule) {
	group, verb := "", "impersonate"
	if c.Constrained != nil {
		group, verb = "authentication.k8s.io", "impersonate:"+modeUser
		out = constrainedRules(c.Constrained)
	}
	users, groups := c.impersonated()
	for _, one := range []struct {
		resource string
		names    []string
		allNames bool
	}{{"users", users, c.ImpersonateAll || c.Constrained != nil && len(c.Users) == 0}, {"groups", groups, false}} {
		if len(one.names) == 0 && !one.allNames {
			continue
		}
		r := rule(group, []string{one.resource}, verb)
		if !one.allNames {
			r.ResourceNames = one.names
		}
		out = append(out, r)
	}
	return out
}

// modeUser is the mode of constrained impersonation for users that are neither nodes nor ServiceAccounts, which it never covers.
const modeUser = "user-info"

// constrainedRules returns what the process may do as users: decide about objects, and read what became of that.
func constrainedRules(c *Constrained) (out []rbacv1.PolicyRule) {
	on := func(verbs ...string) []string {
		for i := range verbs {
			verbs[i] = "impersonate-on:" + modeUser + ":" + verbs[i]
		}
		return verbs
	}
	byGroup := map[string][]string{}
	for _, r := range c.Resources {
		plural, group, _ := strings.Cut(r, ".")
		byGroup[group] = append(byGroup[group], plural)
	}
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		out = append(out, rule(group, byGroup[group], on("get", "patch")...))
	}
	return append(out,
		rule(v1alpha1.Group, v1alpha1.PolicyResources(), on("list")...),
		rule(v1alpha1.Group, []string{"approvalpolicies", "clusterapprovalpolicies"}, on("get", "create")...),
		rule("authentication.k8s.io", []string{"selfsubjectreviews"}, on("create")...),
		rule("", []string{"namespaces"}, on("get")...),
		rule("admissionregistration.k8s.io", []string{"mutatingwebhookconfigurations"}, on("get", "list")...),
	)
}

// impersonated users and groups that the configuration lists, sorted. Users are none where it lists none.
func (c *Config) impersonated() (users, groups []string) {
	for _, p := range c.Users {
		users, groups = append(users, p.User), append(groups, p.Groups...)
	}
	if c.Email != nil && len(c.Users) == 0 {
		groups = append(groups, c.Email.Groups...)
	}
	slices.Sort(users)
	slices.Sort(groups)
	return slices.Compact(users), slices.Compact(groups)
}

func rule(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}
