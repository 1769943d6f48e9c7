package manifests

import (
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestChartFile: the chart has the access rules of this package. -update writes
// the file, as `make generate` does.
func TestChartFile(t *testing.T) {
	got, err := Chart()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "package", "helm", "kausality", "files", "objects.yaml"), got)
}

// TestNoWildcards: no rule gives everything, or a group's everything to the
// static roles (KR-12-02).
func TestNoWildcards(t *testing.T) {
	raw, err := Chart()
	if err != nil {
		t.Fatal(err)
	}
	rules := 0
	for _, doc := range strings.Split(strings.TrimPrefix(string(raw), separator), "\n"+separator) {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(doc), &role); err != nil {
			t.Fatal(err)
		}
		if role.Kind != "ClusterRole" && role.Kind != "Role" {
			continue
		}
		for _, r := range role.Rules {
			rules++
			for _, e := range append(append(append([]string{}, r.APIGroups...), r.Verbs...), r.Resources...) {
				if e == all {
					t.Errorf("%s %s: %v has a wildcard", role.Kind, role.Name, r)
				}
			}
		}
	}
	if rules < 20 {
		t.Errorf("only %d rules were checked", rules)
	}
}
