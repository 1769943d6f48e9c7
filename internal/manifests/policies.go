package manifests

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// policyStatuses are the status subresources of all kinds of policies.
func policyStatuses() []string {
	out := make([]string, 0, len(v1alpha1.PolicyResources()))
	for _, r := range v1alpha1.PolicyResources() {
		out = append(out, r+"/status")
	}
	return out
}

// AuthorsPolicy is the name of the policy that traces who changes Compositions and Functions (KR-07-13).
const AuthorsPolicy = "authors"

const (
	policyTimeout       int32 = 5
	configurationPolicy       = "kausality-policies"
)

// policyConfiguration has policies checked when they are written. While the
// webhook is down they are taken unchecked: a rule that does not compile grants
// nothing, and the status reports it.
func policyConfiguration(in *input) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta: registrationType("ValidatingWebhookConfiguration"), ObjectMeta: meta(configurationPolicy),
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "policies.kausality.io",
			ClientConfig:            in.client(pathPolicies),
			FailurePolicy:           new(admissionregistrationv1.Ignore),
			MatchPolicy:             new(admissionregistrationv1.Equivalent),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          new(policyTimeout),
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{
				entry{}.rule(group{name: v1alpha1.Group, resources: v1alpha1.PolicyResources()}, "", admissionregistrationv1.Create, admissionregistrationv1.Update),
			},
		}},
	}
}
