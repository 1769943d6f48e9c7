package manifests

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Names of the Secrets of an installation.
const (
	SecretServing   = "kausality-webhook-tls"
	SecretAuthority = "kausality-webhook-authority"
	SecretClaimsKey = "kausality-claims-key"
)

// addedTo returns a role that is aggregated to the role of a component.
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
