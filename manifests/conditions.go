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
// object of another kind. Who writes is not asked here: whether a user or a
// field manager is one of ours, only the webhook knows for certain.
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

func mutateConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{
		Name: "desired-state-or-kausality-annotation-changes", Expression: worthAsking,
	}}
}
