package manifests

import (
	"bytes"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Names of the Secrets of an installation.
const (
	SecretServing   = "kausality-webhook-tls"
	SecretAuthority = "kausality-webhook-authority"
	SecretClaimsKey = "kausality-claims-key"
)

// Chart renders what the Helm chart installs beside its workloads: the access of
// each component, which the policy controller extends as policies require it,
// and what refuses a wrong mode on a Namespace. The chart's
// files/objects.yaml holds it.
func Chart() ([]byte, error) {
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

// addedTo is a role whose rules the role of a component has, too.
func addedTo(component, name string, rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	r := clusterRole(name, rules)
	r.Labels[labelOf(component)] = "true"
	return r
}

// controllerRules (KR-13-43): the policy controller writes a handful of objects by name. It
// may give access that it does not have itself, through the roles of the
// policies and no others.
func controllerRules() []rbacv1.PolicyRule {
	write := []string{"create", "patch", "delete"}
	const registration, rbac = "admissionregistration.k8s.io", rbacv1.GroupName
	return []rbacv1.PolicyRule{
		rbacRule(v1alpha1.Group, []string{v1alpha1.ResourceKausalities, v1alpha1.ResourceUpgradeAllowances, v1alpha1.ResourceApprovalRules}, observe...),
		rbacRule(v1alpha1.Group, []string{v1alpha1.ResourceKausalities}, "create"), // the one that traces authors
		rbacRule(v1alpha1.Group, []string{v1alpha1.ResourceKausalities + "/status"}, "patch"),
		rbacRule("apiextensions.k8s.io", []string{"customresourcedefinitions"}, read...),
		rbacRule("", []string{"namespaces"}, observe...),                    // which enforce by their annotation
		rbacRule("pkg.crossplane.io", []string{"providerrevisions"}, "get"), // which Provider a CRD is of
		rbacRule(registration, []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "validatingadmissionpolicies",
			"validatingadmissionpolicybindings"}, observe...),
		named(registration, "mutatingwebhookconfigurations", append(slices.Clone(write), "get"), configurationMutate),
		named(registration, "mutatingwebhookconfigurations", write, configurationRollouts),
		named(registration, "validatingwebhookconfigurations", write, configurationPolicy),
		named(registration, "validatingadmissionpolicies", write, orphanProtection, annotationProtection, crdProtection, crdApproval,
			providerProtection, approverProtection),
		named(registration, "validatingadmissionpolicies", []string{"get"}, crdProtection, providerProtection), // what is protected
		named(registration, "validatingadmissionpolicybindings", write, writtenBindings()...),
		rbacRule(rbac, []string{"clusterroles"}, observe...),
		named(rbac, "clusterroles", []string{"get"}, RoleGatePolicies), // what was guarded
		named(rbac, "clusterroles", append(slices.Clone(write), "escalate"), RoleWebhookPolicies, RoleGatePolicies, RoleControllerPolicies),
		rbacRule("kro.run", []string{"resourcegraphdefinitions"}, observe...), // of which policies are derived
		rbacRule(v1alpha1.Group, []string{v1alpha1.ResourceAllowancePolicies}, append(slices.Clone(observe), "get", "create", "update", "delete")...),
		rbacRule(v1alpha1.Group, []string{v1alpha1.ResourceAllowancePolicies + "/status"}, "patch"),
		rbacRule("events.k8s.io", []string{"events"}, "create", "patch"), // about edits that are put back
		rbacRule("", []string{"events"}, "create"),                       // of the election of a leader
	}
}
