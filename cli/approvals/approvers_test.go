package approvals

import (
	"testing"

	"github.com/stretchr/testify/assert"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestApproversOf: whose right to approve is on the resource alone, as the RBAC authorizer matches rules (KR-02-13).
func TestApproversOf(t *testing.T) {
	xr, mr := schema.GroupResource{Group: "example.org", Resource: "xdbs"}, schema.GroupResource{Group: "cloud.example.org", Resource: "dbs"}
	rule := func(verb, group string, resources ...string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: []string{"get", verb}, APIGroups: []string{group}, Resources: resources}}
	}
	cases := map[string]struct {
		rules     []rbacv1.PolicyRule
		sub, main []schema.GroupResource
	}{
		"Crossplane":   {rules: rule("*", "example.org", "xdbs", "xdbs/status"), main: []schema.GroupResource{xr}},
		"Approver":     {rules: rule("approve", "example.org", "xdbs/approval"), sub: []schema.GroupResource{xr}},
		"OfAll":        {rules: rule("approve", "*", "*/approval"), sub: []schema.GroupResource{xr, mr}},
		"Admin":        {rules: rule("*", "*", "*"), sub: []schema.GroupResource{xr, mr}},
		"Editor":       {rules: rule("update", "example.org", "xdbs")},
		"OtherGroup":   {rules: rule("*", "other.example.org", "xdbs", "dbs")},
		"Status":       {rules: rule("*", "example.org", "*/status")},
		"VerbOnBefore": {rules: rule("approve", "cloud.example.org", "dbs"), main: []schema.GroupResource{mr}},
	}
	for name, tc := range cases {
		for _, r := range []schema.GroupResource{xr, mr} {
			assert.Equal(t, contains(tc.sub, r), has(tc.rules, r, "approval"), "%s: subresource of %s", name, r)
			if !contains(tc.sub, r) {
				assert.Equal(t, contains(tc.main, r), has(tc.rules, r, ""), "%s: %s", name, r)
			}
		}
	}

	edit, approve := rule("*", "example.org", "xdbs"), rule("approve", "example.org", "xdbs/approval")
	got := approversOf([]grant{
		{subject: "Group dev", role: "ClusterRole crossplane-edit", rules: edit},
		{subject: "Group dba", namespace: "shop", role: "ClusterRole crossplane-edit", rules: edit},
		{subject: "Group dba", role: "ClusterRole kausality-approver", rules: approve},
		{subject: "Group ops", namespace: "shop", role: "Role shop/approves", rules: approve},
		{subject: "Group ops", namespace: "store", role: "ClusterRole crossplane-edit", rules: edit},
		{subject: "Group view", role: "ClusterRole view"},
	}, []schema.GroupResource{xr, mr})
	resources := []string{"xdbs.example.org"}
	assert.Equal(t, []Approver{
		{Subject: "Group dev", Right: RightOnResource, Resources: resources, Role: "ClusterRole crossplane-edit", Loses: true},
		{Subject: "Group ops", Namespace: "store", Right: RightOnResource, Resources: resources, Role: "ClusterRole crossplane-edit", Loses: true},
		{Subject: "Group dba", Right: RightOnSubresource, Resources: resources, Role: "ClusterRole kausality-approver"},
		{Subject: "Group dba", Namespace: "shop", Right: RightOnResource, Resources: resources, Role: "ClusterRole crossplane-edit"},
		{Subject: "Group ops", Namespace: "shop", Right: RightOnSubresource, Resources: resources, Role: "Role shop/approves"},
	}, got, "who has it otherwise loses nothing")
}

func contains(list []schema.GroupResource, r schema.GroupResource) bool {
	for _, e := range list {
		if e == r {
			return true
		}
	}
	return false
}
