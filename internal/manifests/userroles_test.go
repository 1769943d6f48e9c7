package manifests

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// TestUserRoles: a viewer reads, an approver is what labelled roles grant, and neither has a
// right on all groups, which would include signers of certificates (KR-12-27).
func TestUserRoles(t *testing.T) {
	viewer, approver := viewerRole(), approverRole()
	for _, r := range viewer.Rules {
		for _, v := range r.Verbs {
			if !slices.Contains([]string{"get", "list", "watch"}, v) {
				t.Errorf("a viewer may %s %v", v, r.Resources)
			}
		}
		if slices.Contains(append(r.APIGroups, r.Resources...), rbacv1.ResourceAll) || slices.Contains(r.Resources, "secrets") {
			t.Errorf("a viewer reads %v of %v", r.Resources, r.APIGroups)
		}
	}
	if len(approver.Rules) > 0 || approver.AggregationRule.ClusterRoleSelectors[0].MatchLabels[LabelApprover] != viewer.Labels[LabelApprover] {
		t.Errorf("an approver has %v by %v, a viewer the labels %v", approver.Rules, approver.AggregationRule, viewer.Labels)
	}
	installed, err := chart()
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := Render(valid())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"chart": string(installed), "manifests": string(fixed)} {
		for _, role := range []string{RoleViewer, RoleApprover} {
			if strings.Count(text, "name: "+role+"\n") != 1 {
				t.Errorf("%s has %s %d times", name, role, strings.Count(text, "name: "+role+"\n"))
			}
		}
	}
}
