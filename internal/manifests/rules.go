package manifests

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const ruleProtection = "kausality-rule-protection"

// bypassResources are the resources whose objects let changes pass without the votes that ApprovalRules require.
var bypassResources = []string{
	v1alpha1.ResourceApprovalPolicies, v1alpha1.ResourceClusterApprovalPolicies, v1alpha1.ResourceUpgradeAllowances,
	v1alpha1.ResourceAllowancePolicies, v1alpha1.ResourceKausalities,
}

// rulePolicy requires the right to approve of users who write policies, if there is an ApprovalRule; for policies of a Namespace, if a rule may be
// about the Namespace (KR-14-60). A pattern counts as matching every Namespace. The policy needs no webhook.
func rulePolicy(components []string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	bypasses := []group{{name: v1alpha1.Group, resources: bypassResources}}
	out := policy(ruleProtection,
		constraints(bypasses, admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete),
		admissionregistrationv1.MatchCondition{Name: "policy-changed-by-other-user", Expression: others(components) + ` &&
(request.operation != "UPDATE" || object.spec != oldObject.spec)`},
		nil,
		check(`(has(request.namespace) && request.namespace != "" && has(params.spec.match.namespaces) &&
  !params.spec.match.namespaces.exists(n, n == "" || n == request.namespace || n.contains("*") || n.contains("?"))) || `+mayApprove(facts.ApproverRBACOn),
			"where ApprovalRules require votes, writing a policy that lets changes pass without them requires the verb approve on its subresource "+
				"approval; a user who has it can write the policy"))
	out.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindApprovalRule}
	return out
}

func ruleBinding() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	b := everywhere(ruleProtection)
	b.Spec.ParamRef = &admissionregistrationv1.ParamRef{
		Selector: &metav1.LabelSelector{}, ParameterNotFoundAction: new(admissionregistrationv1.AllowAction),
	}
	return b
}
