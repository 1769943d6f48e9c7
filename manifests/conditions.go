package manifests

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// worthAsking is true unless an UPDATE leaves the desired state and all our
// annotations as they are. It holds for any kind, since it asks for top-level
// fields other than apiVersion, kind, metadata and status (spec 1), whatever
// they are called; comparing two equal maps costs nearly nothing. A field or an
// annotation of ours that is dropped is a difference.
//
// A CREATE and a DELETE always pass, and so does /scale, which is sent as an
// object of another kind.
const worthAsking = `request.operation != "UPDATE" ||
(has(request.subResource) && request.subResource != "") ||
object.exists(k, !(k in ["apiVersion", "kind", "metadata", "status"]) &&
  (!(k in oldObject) || object[k] != oldObject[k])) ||
oldObject.exists(k, !(k in ["apiVersion", "kind", "metadata", "status"]) && !(k in object)) ||
(has(object.metadata.annotations) && object.metadata.annotations.exists(k, k.startsWith("kausality.io/") &&
  !(has(oldObject.metadata.annotations) && k in oldObject.metadata.annotations &&
    oldObject.metadata.annotations[k] == object.metadata.annotations[k]))) ||
(has(oldObject.metadata.annotations) && oldObject.metadata.annotations.exists(k, k.startsWith("kausality.io/") &&
  !(has(object.metadata.annotations) && k in object.metadata.annotations)))`

// statusWorthAsking keeps status writes away that tell us nothing: dry runs, and
// those that leave the status as it is, of objects that say themselves which
// generation was observed. Of an object that does not, any status write by its
// controller says it (spec 3).
const statusWorthAsking = `!(has(request.dryRun) && request.dryRun) &&
!(has(object.status) && has(oldObject.status) && object.status == oldObject.status &&
  (has(object.status.observedGeneration) ||
    (has(object.status.conditions) && object.status.conditions.exists(c, has(c.observedGeneration)))))`

// ownWrite is true for an update by one of our components as such.
func ownWrite(users []string) string {
	return `request.operation == "UPDATE" && request.userInfo.username in ` + list(users) + ` &&
has(request.options) && has(request.options.fieldManager) && request.options.fieldManager.startsWith("kausality-")`
}

func mutateConditions(in *input, e entry) []admissionregistrationv1.MatchCondition {
	out := []admissionregistrationv1.MatchCondition{
		{Name: "desired-state-or-kausality-annotation-changes", Expression: worthAsking},
		{Name: "not-our-own", Expression: "!(" + ownWrite(in.components()) + ")"},
	}
	if mine := e.mine(); mine != "" {
		out = append(out, admissionregistrationv1.MatchCondition{Name: "no-policy-is-more-specific", Expression: mine})
	}
	return out
}

func statusConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: "tells-something", Expression: statusWorthAsking}}
}
