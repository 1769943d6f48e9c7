package manifests

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Timeouts of the webhooks in seconds. A webhook that is slower than this is as
// good as down; the API server's default of 10 would pile up requests.
const (
	mutateTimeout int32 = 2
	statusTimeout int32 = 1
)

// excludedNamespaces hold what the cluster and Kausality need to get up again.
var excludedNamespaces = []string{"kube-system", "kube-node-lease", "kube-public", Namespace}

func webhookConfiguration(in *input) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: meta("kausality"),
		Webhooks:   []admissionregistrationv1.MutatingWebhook{admissionWebhook(in), statusWebhook(in)},
	}
}

// admissionWebhook decides.
func admissionWebhook(in *input) admissionregistrationv1.MutatingWebhook {
	w := webhook("admission.kausality.io", in.mutateURL, in.caBundle)
	w.FailurePolicy = &in.failurePolicy
	w.TimeoutSeconds = new(mutateTimeout)
	w.ReinvocationPolicy = new(admissionregistrationv1.IfNeededReinvocationPolicy)
	w.MatchConditions = mutateConditions()
	for _, g := range in.groups {
		w.Rules = append(w.Rules, rule(g, "", admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete))
	}
	for _, g := range in.groups {
		w.Rules = append(w.Rules, rule(g, "scale", admissionregistrationv1.Update))
	}
	return w
}

// statusWebhook only looks at who writes a status. It changes and refuses
// nothing, so its outage must not stop anybody.
func statusWebhook(in *input) admissionregistrationv1.MutatingWebhook {
	w := webhook("status.kausality.io", in.statusURL, in.caBundle)
	w.FailurePolicy = new(admissionregistrationv1.Ignore)
	w.TimeoutSeconds = new(statusTimeout)
	w.ReinvocationPolicy = new(admissionregistrationv1.NeverReinvocationPolicy)
	for _, g := range in.groups {
		w.Rules = append(w.Rules, rule(g, "status", admissionregistrationv1.Update))
	}
	return w
}

func webhook(name, url string, ca []byte) admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name:                    name,
		ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
		AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: excludedNamespaces,
		}}},
	}
}

// rule for a group. "*" means every resource but no subresource, "*/scale"
// the scale of every resource.
func rule(g group, subresource string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{g.name}, APIVersions: []string{all}, Resources: g.names(subresource),
			Scope: new(admissionregistrationv1.AllScopes),
		},
	}
}
