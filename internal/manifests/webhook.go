package manifests

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Timeouts of the webhooks in seconds. A webhook that is slower than this is as
// good as down.
const (
	// DefaultTimeoutSeconds of the webhook that decides (KR-12-12).
	DefaultTimeoutSeconds int32 = 5
	// statusTimeout of those that record and restore, and never refuse.
	statusTimeout int32 = 1
)

// configurationMutate is the name of the webhook configuration.
const configurationMutate = "kausality"

// excludedNamespaces hold what the cluster and Kausality need to get up again.
var excludedNamespaces = []string{"kube-system", "kube-node-lease", "kube-public", Namespace}

// webhookConfiguration of all entries.
func webhookConfiguration(in *input) *admissionregistrationv1.MutatingWebhookConfiguration {
	return configuration(configurationMutate, webhooks(in)...)
}

// configuration of webhooks.
func configuration(name string, webhooks ...admissionregistrationv1.MutatingWebhook) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta: registrationType("MutatingWebhookConfiguration"), ObjectMeta: meta(name), Webhooks: webhooks,
	}
}

func registrationType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kind}
}

// webhooks: one for each entry, which may refuse, and two for all statuses, which
// never do.
func webhooks(in *input) []admissionregistrationv1.MutatingWebhook {
	out := make([]admissionregistrationv1.MutatingWebhook, 0, len(in.entries)+2)
	for _, e := range in.entries {
		out = append(out, admissionWebhook(in, e))
	}
	out = append(out, statusWebhook(in), metadataWebhook(in))
	for i := range out {
		if in.embedded {
			out[i].MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "embedded", Expression: "false"}}
		}
	}
	return out
}

// admissionWebhook decides about changes of the desired state in one entry.
func admissionWebhook(in *input, e entry) admissionregistrationv1.MutatingWebhook {
	w := webhook(e.webhookName(), in.client(pathMutate), e.failurePolicy, in.timeout, admissionregistrationv1.IfNeededReinvocationPolicy)
	w.MatchConditions = mutateConditions(in, e)
	w.NamespaceSelector, w.ObjectSelector = e.namespaceSelector(excludedNamespaces), e.objectSelector
	for _, g := range e.groups {
		w.Rules = append(w.Rules, e.rule(g, "", admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete))
	}
	for _, g := range e.groups {
		w.Rules = append(w.Rules, e.rule(g, "scale", admissionregistrationv1.Update))
	}
	return w
}

// statusWebhook records the writers of statuses, for all entries. It never refuses
// a request (KR-05-26).
func statusWebhook(in *input) admissionregistrationv1.MutatingWebhook {
	w := webhook("status.kausality.io", in.client(pathStatus), admissionregistrationv1.Ignore, statusTimeout, admissionregistrationv1.NeverReinvocationPolicy)
	w.MatchConditions = append(statusConditions(), entry{groups: in.groups}.uncritical()...)
	for _, g := range in.groups {
		if g = g.withStatus(); len(g.resources) > 0 {
			w.Rules = append(w.Rules, entry{}.rule(g, "status", admissionregistrationv1.Update))
		}
	}
	return w
}

// metadataWebhook restores what a write of a status changes of the metadata, for all
// entries. Kubelets write the statuses of Pods all the time, and nothing of that.
func metadataWebhook(in *input) admissionregistrationv1.MutatingWebhook {
	w := webhook(v1alpha1.WebhookMetadata, in.client(pathStatus), admissionregistrationv1.Ignore, statusTimeout,
		admissionregistrationv1.IfNeededReinvocationPolicy)
	w.MatchConditions = append(metadataConditions(in), entry{groups: in.groups}.uncritical()...)
	for _, g := range in.groups {
		w.Rules = append(w.Rules, entry{}.rule(g, "status", admissionregistrationv1.Update))
	}
	return w
}

// webhook with what all have in common; it is about all Namespaces that may depend on it. Dry-run requests have no side effects.
func webhook(name string, client admissionregistrationv1.WebhookClientConfig, failure admissionregistrationv1.FailurePolicyType, timeout int32,
	reinvocation admissionregistrationv1.ReinvocationPolicyType) admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name:                    name,
		ClientConfig:            client,
		FailurePolicy:           &failure,
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       entry{}.namespaceSelector(excludedNamespaces),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
		TimeoutSeconds:          &timeout,
		AdmissionReviewVersions: []string{"v1"},
		ReinvocationPolicy:      &reinvocation,
	}
}

// rule for a group. "*" means every resource but no subresource, "*/scale"
// the scale of every resource.
func (e entry) rule(g group, subresource string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{g.name}, APIVersions: []string{all}, Resources: g.names(subresource),
			Scope: e.scope(),
		},
	}
}

const configurationRollouts = "kausality-rollouts"

// rolloutConfiguration has the votes for Rollouts recorded, and their statuses and batches written by Kausality alone
// (KR-14-57). While the webhook is down they cannot be written, since a vote counts only if it is recorded.
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

// policyStatuses returns the status subresources of all kinds of policies.
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
