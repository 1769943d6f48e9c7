package manifests

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const configurationRollouts = "kausality-rollouts"

// rolloutConfiguration has the votes for Rollouts recorded, and their statuses and batches written by Kausality alone
// (KR-14-57). While the webhook is down they cannot be written: a vote that is not recorded is none.
func rolloutConfiguration(in *input) *admissionregistrationv1.MutatingWebhookConfiguration {
	w := webhook("rollouts.kausality.io", in.client(pathRollouts))
	w.FailurePolicy = new(admissionregistrationv1.Fail)
	w.TimeoutSeconds = new(policyTimeout)
	w.ReinvocationPolicy = new(admissionregistrationv1.NeverReinvocationPolicy)
	w.NamespaceSelector = entry{}.namespaceSelector(excludedNamespaces)
	rollouts := group{name: v1alpha1.Group, resources: []string{v1alpha1.ResourceRollouts, v1alpha1.ResourceClusterRollouts}}
	batches := group{name: v1alpha1.Group, resources: []string{v1alpha1.ResourceRolloutBatches}}
	w.Rules = []admissionregistrationv1.RuleWithOperations{
		entry{}.rule(rollouts, "", admissionregistrationv1.Create, admissionregistrationv1.Update),
		entry{}.rule(rollouts, "status", admissionregistrationv1.Update),
		entry{}.rule(batches, "", admissionregistrationv1.Create, admissionregistrationv1.Update),
		entry{}.rule(batches, "status", admissionregistrationv1.Update),
	}
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: meta(configurationRollouts),
		Webhooks:   []admissionregistrationv1.MutatingWebhook{w},
	}
}
