package manifests

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kausality-io/function-kausality/admission/facts"
)

const approverProtection = "kausality-approver-protection"

// decisionKeys are the user annotations that need the verb approve (KR-02-13); those of approve-<id> begin with approvePrefix.
const (
	decisionKeys = `["kausality.io/approvals", "kausality.io/rejections", "kausality.io/freeze", "kausality.io/snooze", "kausality.io/snooze-until",
"kausality.io/mode", "kausality.io/deletion", "kausality.io/parent"]`
	approvePrefix = `"kausality.io/approve-"`
)

// decides is true where a write changes an annotation that needs the verb approve. Very many annotations are not gone over: each
// change of them needs it.
const decides = `[` + annotationsNow + `].exists(now,
[oldObject != null && has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}].exists(was,
  now != was && (size(now) > 1000 || size(was) > 1000 ||
  now.exists(k, (k in ` + decisionKeys + ` || k.startsWith(` + approvePrefix + `)) && !(k in was && was[k] == now[k])) ||
  was.exists(k, (k in ` + decisionKeys + ` || k.startsWith(` + approvePrefix + `)) && !(k in now)))))`

// namespaces are not sent to the webhook, and their mode and freeze are about all objects in them.
var namespaces = group{resources: []string{"namespaces"}}

// approverPolicy requires the verb approve of users whose annotations the webhook does not judge, because it does not answer or the
// policy is suspended: what is decided then counts afterwards (KR-12-14). Controllers copy annotations from an owner or a Claim, and could
// not finish their work if they might not. While the webhook answers, it has decided before.
func approverPolicy(in *input) *admissionregistrationv1.ValidatingAdmissionPolicy {
	copies := `request.userInfo.username.startsWith("system:") &&
[dyn(object)].exists(o, has(o.metadata.ownerReferences) && o.metadata.ownerReferences.exists(r, has(r.controller) && r.controller) ||
  has(o.spec) && has(o.spec.claimRef))`
	return policy(approverProtection,
		constraints(append(slices.Clone(in.groups), namespaces), admissionregistrationv1.Create, admissionregistrationv1.Update),
		admissionregistrationv1.MatchCondition{Name: "decides", Expression: decides + " &&\n" + notOwnWrite(in.components())},
		[]admissionregistrationv1.Variable{{Name: "copies", Expression: copies}},
		check("variables.copies || "+mayApprove(in.approval),
			"changing approvals, rejections, freezes and the other decisions in kausality.io annotations requires the verb approve on the subresource "+
				"approval of the object; a user who has it can make the change"))
}

// approverBinding, everywhere but where the webhook is never called.
func approverBinding() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	match := &admissionregistrationv1.MatchResources{NamespaceSelector: entry{}.namespaceSelector(excludedNamespaces)}
	return binding(approverProtection, approverProtection, match, admissionregistrationv1.Deny)
}

// mayApprove returns an expression that is true where the user has the right to approve on the object (KR-02-13).
func mayApprove(a facts.ApproverRBAC) string {
	const on = `authorizer.group(request.resource.group).resource(request.resource.resource)`
	return rightTo(a, on, requested)
}

// requested is the object of the request, for the authorizer. A cluster-scoped object has no namespace, and an object with a generated name no name.
const requested = `.namespace(has(request.namespace) ? request.namespace : "").name(has(request.name) ? request.name : "")`

// rightTo approve on an object of a resource, as an expression.
func rightTo(a facts.ApproverRBAC, on, object string) string {
	check := object + `.check("approve").allowed()`
	right := on + `.subresource("approval")` + check
	if a == facts.ApproverRBACResource {
		return "(" + right + " || " + on + check + ")"
	}
	return right
}
