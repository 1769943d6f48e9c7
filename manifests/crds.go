package manifests

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	crdProtection = "kausality-crd-protection"
	crdApproval   = "kausality-crd-approval"
)

// allows is a CEL expression that is true where the deletion of a CRD is allowed.
func allows(object string) string {
	return `has(` + object + `.metadata.annotations) && "kausality.io/allow-deletion" in ` + object + `.metadata.annotations &&
` + object + `.metadata.annotations["kausality.io/allow-deletion"] == "true"`
}

// crdRule matches CRDs.
func crdRule(operations ...admissionregistrationv1.OperationType) *admissionregistrationv1.MatchResources {
	crds := group{name: "apiextensions.k8s.io", resources: []string{"customresourcedefinitions"}}
	return &admissionregistrationv1.MatchResources{
		MatchPolicy:   new(admissionregistrationv1.Equivalent),
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: entry{}.rule(crds, "", operations...)}},
	}
}

// crdPolicy refuses the deletion of CRDs whose objects are masked (KR-13-29): the finalizer of a CRD deletes its
// objects past admission, and a provider leaves the external resource of a masked one behind. It matches deletions
// alone: while its parameters cannot be resolved, the API server refuses all that it matches, and the CRD of the
// parameters must be possible to create.
func crdPolicy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta: policyType, ObjectMeta: meta(crdProtection),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    new(admissionregistrationv1.Fail),
			ParamKind:        &admissionregistrationv1.ParamKind{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Kausality"},
			MatchConstraints: crdRule(admissionregistrationv1.Delete),
			MatchConditions:  []admissionregistrationv1.MatchCondition{{Name: "not-deleting", Expression: `!has(oldObject.metadata.deletionTimestamp)`}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: `!has(params.status) || !has(params.status.maskedCRDs) ||
!(oldObject.metadata.name in params.status.maskedCRDs) || ` + allows("oldObject"),
				Message: "objects of this kind are masked by Kausality: deleting their CRD would leave their external resources behind",
				MessageExpression: `"objects of CustomResourceDefinition " + oldObject.metadata.name + " are masked by Kausality: deleting it would delete them ` +
					`past all checks, and leave their external resources behind. To delete it nevertheless: kubectl annotate customresourcedefinitions " + ` +
					`oldObject.metadata.name + " kausality.io/allow-deletion=true"`,
				Reason: new(metav1.StatusReasonForbidden),
			}},
		},
	}
}

// crdApprovalPolicy requires the verb approve of users who set the annotation that allows the deletion of a CRD
// (KR-13-29). It is evaluated for writes of that annotation alone.
func crdApprovalPolicy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta: policyType, ObjectMeta: meta(crdApproval),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    new(admissionregistrationv1.Fail),
			MatchConstraints: crdRule(admissionregistrationv1.Create, admissionregistrationv1.Update),
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "allows-deletion",
				Expression: `(` + allows("object") + `) && (oldObject == null || !(` + allows("oldObject") + `))`}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: `authorizer.group("apiextensions.k8s.io").resource("customresourcedefinitions").name(object.metadata.name).check("approve").allowed()`,
				Message:    "setting kausality.io/allow-deletion on a CustomResourceDefinition requires the verb approve for it; an approver can set it",
				Reason:     new(metav1.StatusReasonForbidden),
			}},
		},
	}
}

// crdBinding has each policy as a parameter; its status has the CRDs with masked objects. Without policies there are
// none.
func crdBinding() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	b := binding(crdProtection, crdProtection, nil, admissionregistrationv1.Deny)
	b.Spec.ParamRef = &admissionregistrationv1.ParamRef{
		Selector: &metav1.LabelSelector{}, ParameterNotFoundAction: new(admissionregistrationv1.AllowAction),
	}
	return b
}
