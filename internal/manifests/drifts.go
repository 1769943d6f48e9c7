package manifests

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const driftProtection = "kausality-drift-protection"

// cascadingDeleters delete Drifts with what they are about, or with their Namespace.
var cascadingDeleters = []string{
	"system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccount:kube-system:namespace-controller",
	"system:kube-controller-manager",
}

// driftPolicy lets only Kausality write what Drifts show. Users need the right to approve to create or delete a Drift (KR-13-67). The policy
// needs no webhook.
func driftPolicy(components []string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	drifts := []group{{name: v1alpha1.Group, resources: []string{v1alpha1.ResourceDrifts}}}
	return policy(driftProtection,
		withStatuses(constraints(drifts, admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete), drifts),
		admissionregistrationv1.MatchCondition{Name: "changed-by-other-user", Expression: others(components) + ` &&
(request.operation != "UPDATE" || has(request.subResource) && request.subResource == "status" || object.spec != oldObject.spec ||
  (has(object.metadata.ownerReferences) ? object.metadata.ownerReferences : []) !=
  (has(oldObject.metadata.ownerReferences) ? oldObject.metadata.ownerReferences : []))`},
		nil,
		check(`request.operation != "UPDATE"`,
			"only Kausality may change the spec, status and owners of Drifts; to let the change pass that a Drift shows, approve it"),
		check(`request.operation == "UPDATE" || `+mayApprove(facts.ApproverRBACOn),
			"only Kausality creates and deletes Drifts: another user needs the verb approve on drifts/approval, and a Drift that is deleted comes back "+
				"while its change is held; to let the change pass, approve it"))
}

// others returns an expression that is true for users that are neither Kausality's components nor carry out the deletions of other users.
func others(components []string) string {
	return `!request.userInfo.username.startsWith("` + serviceAccountPrefix + Namespace + `:kausality-") &&
!(request.userInfo.username in ` + list(slices.Concat(cascadingDeleters, components)) + `)`
}
