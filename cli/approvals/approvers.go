package approvals

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
)

// page is the page size of lists of CRDs: some have hundreds of KiB.
const page = 50

// Right to approve, by where a role has the verb.
type Right string

const (
	// RightOnSubresource counts with approver RBAC.
	RightOnSubresource Right = "subresource"
	// RightOnResource counts with --approver-rbac=resource alone.
	RightOnResource Right = "resource"
)

// Approver is a subject of RBAC with the right to approve.
type Approver struct {
	// Subject as in "Group dba" or "ServiceAccount ci/deploy".
	Subject string `json:"subject"`
	// Namespace in which it has the right; empty for all.
	Namespace string `json:"namespace,omitempty"`
	Right     Right  `json:"right"`
	// Resources on whose objects it may approve, with their groups, sorted.
	Resources []string `json:"resources"`
	// Role that has the right, as in "ClusterRole crossplane-edit".
	Role string `json:"role"`
	// Loses: with --approver-rbac=true it does not have the right on these resources, by any other role either.
	Loses bool `json:"loses"`
}

// grant of a role to a subject.
type grant struct {
	subject, namespace, role string
	rules                    []rbacv1.PolicyRule
}

// Approvers returns who may approve on claims, composite and managed resources by RBAC, those first who lose the right.
func Approvers(ctx context.Context, d *cluster.Direct) ([]Approver, error) {
	var resources []schema.GroupResource
	err := d.EachKind(ctx, page, func(info kinds.Info) error {
		if info.Role != parent.RoleNone {
			resources = append(resources, info.GVR.GroupResource())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	grants, err := grantsOf(ctx, d)
	if err != nil {
		return nil, err
	}
	return approversOf(grants, resources), nil
}

// grantsOf returns the grants of all roles that have the verb on anything.
func grantsOf(ctx context.Context, d *cluster.Direct) ([]grant, error) {
	api := d.Kubernetes.RbacV1()
	clusterRoles, err := api.ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list ClusterRoles: %w", err)
	}
	roles, err := api.Roles(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list Roles: %w", err)
	}
	clusterBindings, err := api.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list ClusterRoleBindings: %w", err)
	}
	bindings, err := api.RoleBindings(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list RoleBindings: %w", err)
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for _, r := range clusterRoles.Items {
		rules["ClusterRole "+r.Name] = r.Rules
	}
	for _, r := range roles.Items {
		rules["Role "+r.Namespace+"/"+r.Name] = r.Rules
	}
	var out []grant
	add := func(namespace string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		role := ref.Kind + " " + ref.Name
		if ref.Kind == "Role" {
			role = ref.Kind + " " + namespace + "/" + ref.Name
		}
		for _, s := range subjects {
			out = append(out, grant{subject: subjectName(s), namespace: namespace, role: role, rules: rules[role]})
		}
	}
	for _, b := range clusterBindings.Items {
		add("", b.RoleRef, b.Subjects)
	}
	for _, b := range bindings.Items {
		add(b.Namespace, b.RoleRef, b.Subjects)
	}
	return out, nil
}

func subjectName(s rbacv1.Subject) string {
	if s.Kind == rbacv1.ServiceAccountKind {
		return s.Kind + " " + s.Namespace + "/" + s.Name
	}
	return s.Kind + " " + s.Name
}

// approversOf returns the approvers of resources by grants.
func approversOf(grants []grant, resources []schema.GroupResource) []Approver {
	type at struct{ subject, namespace, resource string }
	keeps := map[at]bool{}
	for _, g := range grants {
		for _, r := range resources {
			if has(g.rules, r, admission.SubresourceApproval) {
				keeps[at{g.subject, g.namespace, r.String()}] = true
			}
		}
	}
	found := map[string]*Approver{}
	add := func(g grant, right Right, loses bool, resource string) {
		key := strings.Join([]string{g.subject, g.namespace, g.role, string(right), fmt.Sprint(loses)}, "\x00")
		if found[key] == nil {
			found[key] = &Approver{Subject: g.subject, Namespace: g.namespace, Role: g.role, Right: right, Loses: loses}
		}
		if !slices.Contains(found[key].Resources, resource) {
			found[key].Resources = append(found[key].Resources, resource)
		}
	}
	for _, g := range grants {
		for _, r := range resources {
			name := r.String()
			switch {
			case has(g.rules, r, admission.SubresourceApproval):
				add(g, RightOnSubresource, false, name)
			case has(g.rules, r, ""):
				add(g, RightOnResource, !keeps[at{g.subject, g.namespace, name}] && !keeps[at{g.subject, "", name}], name)
			}
		}
	}
	out := make([]Approver, 0, len(found))
	for _, a := range slices.Collect(maps.Values(found)) {
		slices.Sort(a.Resources)
		out = append(out, *a)
	}
	slices.SortFunc(out, func(a, b Approver) int {
		return cmp.Or(first(a.Loses, b.Loses), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Role, b.Role), cmp.Compare(a.Right, b.Right))
	})
	return out
}

// first orders what something is true of before the rest.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// has reports whether rules have the verb approve on a resource or a subresource of it, as the RBAC authorizer matches them.
func has(rules []rbacv1.PolicyRule, r schema.GroupResource, subresource string) bool {
	names := []string{rbacv1.ResourceAll, r.Resource}
	if subresource != "" {
		names = []string{rbacv1.ResourceAll, r.Resource + "/" + subresource, rbacv1.ResourceAll + "/" + subresource}
	}
	lists := func(list []string, wanted ...string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return slices.Contains(wanted, s) })
	}
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
		return lists(rule.Verbs, rbacv1.VerbAll, admission.VerbApprove) && lists(rule.APIGroups, rbacv1.APIGroupAll, r.Group) && lists(rule.Resources, names...)
	})
}
