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
)

// Chart renders what the Helm chart installs beside its workloads: the access of
// each component, which the policy controller adds to as policies ask for it,
// and what refuses a wrong mode on a Namespace. The chart's
// files/objects.yaml holds it.
func Chart() ([]byte, error) {
	var out bytes.Buffer
	for _, object := range []any{
		aggregated(componentWebhook), base(componentWebhook, webhookRules()), boundTo(componentWebhook),
		aggregated(componentGate), base(componentGate, gateRules()), boundTo(componentGate),
		aggregated(componentController), base(componentController, controllerRules()), boundTo(componentController),
		crossplaneRole(), leasesRole(), leasesBinding([]string{serviceAccountPrefix + Namespace + ":" + componentController}),
		homeRole(componentWebhook, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{SecretServing}, Verbs: read}),
		homeBinding(componentWebhook),
		homeRole(componentController,
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{SecretServing, SecretAuthority},
				Verbs: []string{"get", "update"}},
			rbacRule("", []string{"secrets"}, "create")), // no name can be asked for before there is one
		homeBinding(componentController),
		namespaceModePolicy(), namespaceModeBinding(),
	} {
		if err := write(&out, object); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// short name of a component, for labels.
func short(component string) string { return component[len("kausality-"):] }

// aggregated role of a component: its own and what the policies add.
func aggregated(component string) *rbacv1.ClusterRole {
	r := clusterRole(component, nil)
	r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{aggregateLabel + short(component): "true"}}}}
	return r
}

func base(component string, rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	r := clusterRole(component+"-base", rules)
	r.Labels[aggregateLabel+short(component)] = "true"
	return r
}

func boundTo(component string) *rbacv1.ClusterRoleBinding { return clusterRoleBinding(component, nil) }

// controllerRules: the policy controller writes a handful of objects by name. It
// may give access that it does not have itself, through the roles of the
// policies and no others.
func controllerRules() []rbacv1.PolicyRule {
	write := []string{"create", "patch", "delete"}
	const registration, rbac = "admissionregistration.k8s.io", rbacv1.GroupName
	return []rbacv1.PolicyRule{
		rbacRule(v1alpha1.Group, []string{"kausalities"}, read...),
		rbacRule(v1alpha1.Group, []string{"kausalities/status"}, "patch"),
		rbacRule("apiextensions.k8s.io", []string{"customresourcedefinitions"}, read...),
		rbacRule(registration, []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "validatingadmissionpolicies",
			"validatingadmissionpolicybindings"}, read...),
		named(registration, "mutatingwebhookconfigurations", write, configurationMutate),
		named(registration, "validatingwebhookconfigurations", write, configurationPolicy),
		named(registration, "validatingadmissionpolicies", write, orphanProtection, annotationProtection),
		rbacRule(registration, []string{"validatingadmissionpolicybindings"}, write...), // one for each policy, by its name
		rbacRule(rbac, []string{"clusterroles"}, read...),
		named(rbac, "clusterroles", append(slices.Clone(write), "escalate"), RoleWebhookPolicies, RoleGatePolicies, RoleControllerPolicies),
		rbacRule("", []string{"events"}, "create", "patch"),
		rbacRule("events.k8s.io", []string{"events"}, "create", "patch"),
	}
}

// homeRole of a component in our own Namespace.
func homeRole(component string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	r := &rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: meta(component), Rules: rules}
	r.Namespace = Namespace
	return r
}

func homeBinding(component string) *rbacv1.RoleBinding {
	b := &rbacv1.RoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"}, ObjectMeta: meta(component),
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: component},
		Subjects: []rbacv1.Subject{accountSubject(Namespace, component)},
	}
	b.Namespace = Namespace
	return b
}
