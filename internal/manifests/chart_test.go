package manifests

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// TestChartFile: the chart has the access rules of this package. -update writes
// the file, as `make generate` does.
func TestChartFile(t *testing.T) {
	got, err := chart()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "package", "helm", "kausality", "files", "objects.yaml"), got)
}

// TestNoWildcards: no rule gives everything, or a group's everything to the
// static roles (KR-12-02).
func TestNoWildcards(t *testing.T) {
	raw, err := chart()
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

// chart renders what the Helm chart installs beside its workloads: the access of
// each component, which the policy controller extends as policies require it,
// and what refuses a wrong mode on a Namespace. The chart's
// files/objects.yaml holds it.
func chart() ([]byte, error) {
	var out bytes.Buffer
	secret := func(verbs []string, names ...string) rbacv1.PolicyRule { return named("", "secrets", verbs, names...) }
	for _, object := range slices.Concat(
		aggregated(componentWebhook, webhookRules()), aggregated(componentGate, gateRules()), aggregated(componentController, controllerRules()),
		[]any{
			crossplaneRole(), leasesRole(), leasesBinding([]string{serviceAccountPrefix + Namespace + ":" + componentController}),
			heartbeatRole(), heartbeatBinding(nil), viewerRole(), approverRole(),
			homeRole(componentWebhook, secret(observe, SecretServing, SecretClaimsKey)),
			homeBinding(componentWebhook, accountSubject(Namespace, componentWebhook)),
			homeRole(componentGate, secret(observe, SecretClaimsKey)),
			homeBinding(componentGate, accountSubject(Namespace, componentGate)),
			homeRole(componentController, secret([]string{"get", "update"}, SecretServing, SecretAuthority), secret([]string{"get"}, SecretClaimsKey),
				named("coordination.k8s.io", "leases", []string{"get"}, Heartbeat), // whether the webhook runs
				rbacRule("", []string{"secrets"}, "create")),                       // a name cannot be required of what does not exist yet
			homeBinding(componentController, accountSubject(Namespace, componentController)),
			namespaceModePolicy(), everywhere(namespaceMode), driftPolicy(nil), everywhere(driftProtection), rulePolicy(nil), ruleBinding(),
		}, controllerLimits(),
	) {
		if err := write(&out, object); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// aggregated access of a component: its own rules, and what the policies add.
func aggregated(component string, rules []rbacv1.PolicyRule) []any {
	role := clusterRole(component, nil)
	base := addedTo(component, component+"-base", rules)
	role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{
		labelOf(component): "true",
	}}}}
	return []any{role, base, clusterRoleBinding(component, nil)}
}
