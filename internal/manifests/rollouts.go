package manifests

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const configurationRollouts = "kausality-rollouts"

// rolloutConfiguration has the votes for Rollouts recorded, and their statuses and batches written by Kausality alone
// (KR-14-57). While the webhook is down they cannot be written: a vote that is not recorded is none.
func rolloutConfiguration(in *input) *admissionregistrationv1.MutatingWebhookConfiguration {
	w := webhook("rollouts.kausality.io", in.client(pathRollouts), admissionregistrationv1.Fail, policyTimeout, admissionregistrationv1.NeverReinvocationPolicy)
	rollouts := group{name: v1alpha1.Group, resources: []string{v1alpha1.ResourceRollouts, v1alpha1.ResourceClusterRollouts}}
	batches := group{name: v1alpha1.Group, resources: []string{v1alpha1.ResourceRolloutBatches}}
	w.Rules = []admissionregistrationv1.RuleWithOperations{
		entry{}.rule(rollouts, "", admissionregistrationv1.Create, admissionregistrationv1.Update),
		entry{}.rule(rollouts, "status", admissionregistrationv1.Update),
		entry{}.rule(batches, "", admissionregistrationv1.Create, admissionregistrationv1.Update),
		entry{}.rule(batches, "status", admissionregistrationv1.Update),
	}
	return configuration(configurationRollouts, w)
}
