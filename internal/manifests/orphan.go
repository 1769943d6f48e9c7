package manifests

import admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

const orphanProtection = "kausality-orphan-protection"

// isMasked is true for managed resources under a gate and for nothing else:
// only Kausality writes that annotation, and only while it masks.
const isMasked = `has(oldObject.metadata.annotations) &&
"kausality.io/management-policies" in oldObject.metadata.annotations &&
!has(oldObject.metadata.deletionTimestamp)`

// The variables of the policy. The author's value is JSON in an annotation, and
// CEL reads no JSON; verbs are quoted in it, so that a search is exact.
var orphanVariables = []admissionregistrationv1.Variable{
	{Name: "mr", Expression: `dyn(oldObject)`},
	{Name: "author", Expression: `variables.mr.metadata.annotations["kausality.io/management-policies"]`},
	{Name: "wanted", Expression: `variables.author.contains("\"*\"") || variables.author.contains("\"Delete\"")`},
	{Name: "orphan", Expression: `("kausality.io/deletion" in variables.mr.metadata.annotations &&
  variables.mr.metadata.annotations["kausality.io/deletion"] == "orphan") ||
(variables.author.contains("\"*\"") && has(variables.mr.spec) && has(variables.mr.spec.deletionPolicy) &&
  variables.mr.spec.deletionPolicy == "Orphan")`},
	{Name: "open", Expression: `!has(variables.mr.spec) || !has(variables.mr.spec.managementPolicies) ||
variables.mr.spec.managementPolicies.exists(p, p == "*" || p == "Delete")`},
	{Name: "target", Expression: `request.resource.resource + "." + request.resource.group + " " + variables.mr.metadata.name +
(has(variables.mr.metadata.namespace) ? " -n " + variables.mr.metadata.namespace : "")`},
}

const orphanMessage = `"deleting " + variables.target + " would leave its external resource behind: ` +
	`the gate is closed, its managementPolicies hold no Delete. To delete the external resource with it, ` +
	`approve the deletion and try again once the Kausality webhook answers, which names the command. ` +
	`To leave it behind on purpose: kubectl annotate " + variables.target + " kausality.io/deletion=orphan"`

// orphanPolicy repeats the refusal of KR-08-15 while the webhook is down: a
// deletion of a managed resource whose author wants the external resource
// deleted, and whose mask lets the provider only look. It never matches
// anything else (KR-08-15).
func orphanPolicy(in *input) *admissionregistrationv1.ValidatingAdmissionPolicy {
	return policy(orphanProtection, constraints(in.groups, admissionregistrationv1.Delete),
		admissionregistrationv1.MatchCondition{Name: "masked-by-kausality", Expression: isMasked}, orphanVariables,
		explain(check("!variables.wanted || variables.orphan || variables.open",
			"deleting it would leave its external resource behind: the gate of Kausality is closed; approve the deletion, "+
				"or annotate it with kausality.io/deletion=orphan"), orphanMessage))
}
