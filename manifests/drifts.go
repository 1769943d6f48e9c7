package manifests

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const driftProtection = "kausality-drift-protection"

// driftKeepers are the users beside Kausality's own components who delete Drifts with what they are about, or with their Namespace.
var driftKeepers = []string{
	"system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccount:kube-system:namespace-controller",
	"system:kube-controller-manager",
}

// driftPolicy requires the right to approve of users who delete or resolve Drifts, or change what they are about (KR-13-67). It needs no
// webhook.
func driftPolicy(components []string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	rule := entry{}.rule(group{name: v1alpha1.Group, resources: []string{v1alpha1.ResourceDrifts, v1alpha1.ResourceDrifts + "/status"}}, "",
		admissionregistrationv1.Update, admissionregistrationv1.Delete)
	right := rightTo(facts.ApproverRBACOn, `authorizer.group("`+v1alpha1.Group+`").resource("`+v1alpha1.ResourceDrifts+`")`,
		requested)
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta: policyType, ObjectMeta: meta(driftProtection),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionregistrationv1.Fail),
			MatchConstraints: &admissionregistrationv1.MatchResources{
				MatchPolicy: new(admissionregistrationv1.Equivalent), ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rule}},
			},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "others-change-what-is-held",
				Expression: others(components) + ` &&
(request.operation == "DELETE" || has(request.subResource) && request.subResource == "status" || object.spec != oldObject.spec ||
  (has(object.metadata.ownerReferences) ? object.metadata.ownerReferences : []) !=
  (has(oldObject.metadata.ownerReferences) ? oldObject.metadata.ownerReferences : []))`}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: right,
				Message: "Kausality alone writes Drifts, and deletes those that are over: to let the change pass, approve it; to delete a Drift takes the verb approve " +
					"on drifts/approval, and forgets nothing of what is held",
				Reason: new(metav1.StatusReasonForbidden),
			}},
		},
	}
}

// others is an expression that is true for users that are neither Kausality's components nor carry out the deletions of other users.
func others(components []string) string {
	return `!request.userInfo.username.startsWith("` + serviceAccountPrefix + Namespace + `:kausality-") &&
!(request.userInfo.username in ` + list(slices.Concat(driftKeepers, components)) + `)`
}

func driftBinding() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return binding(driftProtection, driftProtection, nil, admissionregistrationv1.Deny)
}
