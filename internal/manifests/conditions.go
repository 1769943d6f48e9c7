package manifests

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// The API server evaluates each expression in the way of every guarded write, and
// takes a microsecond for an operation or two: comparing two maps is one, whatever
// they hold, and iterating over them many. So the first comparison decides the
// common cases.

// specChanges is true where the spec does; nearly all kinds have one.
const specChanges = `(has(object.spec) ? !has(oldObject.spec) || object.spec != oldObject.spec : has(oldObject.spec))`

// otherwiseChanges is true where any other part of the desired state does: a
// top-level field other than apiVersion, kind, metadata and status (KR-01-01),
// whatever it is called.
const otherwiseChanges = `(dyn(object).exists(k, !(k in ["apiVersion", "kind", "metadata", "status", "spec"]) &&
  (!(k in dyn(oldObject)) || dyn(object)[k] != dyn(oldObject)[k])) ||
dyn(oldObject).exists(k, !(k in ["apiVersion", "kind", "metadata", "status", "spec"]) && !(k in dyn(object))))`

// annotationsChange is true where any annotation does.
const annotationsChange = `(has(object.metadata.annotations) ?
  !has(oldObject.metadata.annotations) || object.metadata.annotations != oldObject.metadata.annotations :
  has(oldObject.metadata.annotations))`

// parentChanges is true where a write takes the controller reference of an object away or
// points it elsewhere (KR-13-13). The garbage collector may, also while the webhook is down.
const parentChanges = `(has(oldObject.metadata.ownerReferences) &&
  (!has(object.metadata.ownerReferences) || object.metadata.ownerReferences != oldObject.metadata.ownerReferences) &&
  request.userInfo.username != "system:serviceaccount:kube-system:generic-garbage-collector" &&
  oldObject.metadata.ownerReferences.exists(r, has(r.controller) && r.controller &&
    !(has(object.metadata.ownerReferences) && r in object.metadata.ownerReferences)))`

// parentAdded is true where a write gives an object a controller reference that it did not have (KR-13-63).
const parentAdded = `(has(object.metadata.ownerReferences) &&
  (!has(oldObject.metadata.ownerReferences) || object.metadata.ownerReferences != oldObject.metadata.ownerReferences) &&
  object.metadata.ownerReferences.exists(r, has(r.controller) && r.controller &&
    !(has(oldObject.metadata.ownerReferences) && r in oldObject.metadata.ownerReferences)))`

// membershipChanges is true where a label does by which a child names its instance of a graph of kro (KR-18-04).
var membershipChanges = labelsChange(parent.MembershipLabels())

// keptMetadata is true where the parent or an annotation of Kausality changes.
var keptMetadata = parentChanges + ` || ` + parentAdded + ` || ` + membershipChanges + ` ||
` + annotationsChange + ` && (
  (has(object.metadata.annotations) && (size(object.metadata.annotations) > 200 ||
    object.metadata.annotations.exists(k, k.startsWith("kausality.io/") &&
      !(has(oldObject.metadata.annotations) && k in oldObject.metadata.annotations &&
        oldObject.metadata.annotations[k] == object.metadata.annotations[k])))) ||
  (has(oldObject.metadata.annotations) && (size(oldObject.metadata.annotations) > 200 ||
    oldObject.metadata.annotations.exists(k, k.startsWith("kausality.io/") &&
      !(has(object.metadata.annotations) && k in object.metadata.annotations)))))`

// externalNameChanges is true where the external name does: the desired state of a
// managed resource (KR-13-17). It is evaluated where any annotation changes.
var externalNameChanges = valueChanges(v1alpha1.AnnotationKeyExternalName)

// resourceNameChanges is true where the composition resource name does (KR-13-65). It is evaluated where any annotation changes.
var resourceNameChanges = valueChanges(v1alpha1.AnnotationKeyCompositionResourceName)

// valueChanges is true where the value of an annotation changes. A missing annotation counts as empty.
func valueChanges(key string) string {
	value := func(object string) string {
		annotations := object + `.metadata.annotations`
		return `(has(` + annotations + `) && ` + quote(key) + ` in ` + annotations + ` ? ` + annotations + `[` + quote(key) + `] : "")`
	}
	return `(` + value("object") + ` != ` + value("oldObject") + `)`
}

// finalizerRemoved is true where a write removes the finalizer of a provider (KR-13-53).
const finalizerRemoved = `(has(oldObject.metadata.finalizers) && "` + parent.ProviderFinalizer + `" in oldObject.metadata.finalizers &&
  !(has(object.metadata.finalizers) && "` + parent.ProviderFinalizer + `" in object.metadata.finalizers))`

// worthAsking is true unless an UPDATE leaves the desired state, the parent and all annotations
// of Kausality as they are. A dropped field or a dropped annotation of Kausality is a
// difference. Where there are very many annotations, of which any changed, they are
// not gone over: that takes the API server a time that grows with their square.
//
// A CREATE and a DELETE always pass, and so does /scale, which is sent as an
// object of another kind.
var worthAsking = `request.operation != "UPDATE" || ` + specChanges + ` ||
(has(request.subResource) && request.subResource != "") ||
` + otherwiseChanges + ` ||
` + annotationsChange + ` && (` + externalNameChanges + ` || ` + resourceNameChanges + `) ||
` + finalizerRemoved + ` ||
` + keptMetadata

// labelsChange is true where a label by which a policy or an UpgradeAllowance selects
// objects does: the object may leave that policy by it, or come under the UpgradeAllowance
// (KR-13-46).
func labelsChange(keys []string) string {
	return `[has(object.metadata.labels) ? object.metadata.labels : {}].exists(now,
  [has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}].exists(was,
    now != was && ` + list(keys) + `.exists(k, ` + differs("was", "now") + `)))`
}

// relevantStatus excludes status writes without information: dry runs, and those
// that do not change the status of objects with an observedGeneration. Of an object
// without one, any status write by its controller reports it (KR-03-01).
const relevantStatus = `!(has(request.dryRun) && request.dryRun) &&
!(has(object.status) && has(oldObject.status) && object.status == oldObject.status &&
  (has(object.status.observedGeneration) ||
    (has(object.status.conditions) && object.status.conditions.exists(c, has(c.observedGeneration)))))`

// notOwnWrite is true except for an update that a component of Kausality makes as such. It is not a
// condition of its own, since all conditions are evaluated, also if the first is false.
func notOwnWrite(users []string) string {
	return `!(request.userInfo.username in ` + list(users) + ` && request.operation == "UPDATE" &&
has(request.options) && has(request.options.fieldManager) && request.options.fieldManager.startsWith("kausality-"))`
}

// mutateConditions keep requests that nothing is decided about away from the webhook (KR-12-03).
func mutateConditions(in *input, e entry) []admissionregistrationv1.MatchCondition {
	worth := worthAsking
	if keys := sets.List(sets.New(e.labelKeys()...).Insert(in.selectedBy...)); len(keys) > 0 {
		worth += " ||\n" + labelsChange(keys)
	}
	out := []admissionregistrationv1.MatchCondition{
		{Name: "others-change-desired-state-or-kausality-annotation", Expression: "(" + worth + ") &&\n" + notOwnWrite(in.components())},
	}
	out = append(out, e.uncritical()...)
	if mine := e.mine(); mine != "" {
		out = append(out, admissionregistrationv1.MatchCondition{Name: "no-policy-is-more-specific", Expression: mine})
	}
	if len(e.own) > 0 && e.own[0].Suspended {
		out = append(out, admissionregistrationv1.MatchCondition{Name: v1alpha1.ConditionSuspended, Expression: "false"})
	}
	return out
}

func statusConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: "tells-something", Expression: relevantStatus}}
}

// metadataConditions select the writes of a status that change more than the status: those
// of built-in kinds store annotations and owners, too (KR-13-16).
func metadataConditions(in *input) []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{
		{Name: "others-change-kept-metadata", Expression: "(" + keptMetadata + ") &&\n" + notOwnWrite(in.components())},
	}
}
