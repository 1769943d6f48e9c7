package manifests

import (
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	annotationProtection = "kausality-annotation-protection"
	namespaceMode        = "kausality-namespace-mode"
)

// systemKeys are the system annotations that no write of other clients leaves
// changed while the webhook is up, unless it changes the desired state too: then
// the webhook writes some of them itself, and its changes cannot be distinguished
// from the user's. The claims are missing: the webhook keeps them on any write.
const systemKeys = `["kausality.io/trace", "kausality.io/updaters", "kausality.io/controllers", "kausality.io/controller-ids",
"kausality.io/phase", "kausality.io/settled-generation", "kausality.io/settled-state", "kausality.io/management-policies", "kausality.io/gate",
"kausality.io/allowances", "kausality.io/fingerprint", "kausality.io/last-upgrade", "kausality.io/authors"]`

// authorKeys hold what the author wrote behind the mask: where they change with
// a new hop in the trace, so did the desired state, although the masked fields are
// as they were.
const authorKeys = `["kausality.io/management-policies", "kausality.io/external-author"]`

// keptKeys are never removed by the webhook, whatever else a write changes.
var keptKeys = []string{
	"kausality.io/trace", "kausality.io/controllers", "kausality.io/controller-ids", "kausality.io/phase",
	"kausality.io/settled-generation", "kausality.io/settled-state", "kausality.io/authors",
}

const (
	annotationsNow = `has(object.metadata.annotations) ? object.metadata.annotations : {}`
	annotationsWas = `has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}`
)

// touches is true where a system annotation is changed that should not be. It
// is all one condition, since the API server evaluates variables, validations and
// messages of a policy together, and this alone for an ordinary write. The lists
// of one element give names to repeated expressions.
var touches = annotationsChange + ` && (` + keptRemoved + ` || !` + specChanges + ` &&
[` + annotationsNow + `].exists(now, [` + annotationsWas + `].exists(was,
  ` + systemKeys + `.exists(k, ` + differs("was", "now") + `) &&
  !(` + otherwiseChanges + ` || ` + externalNameChanges + ` ||
    ["kausality.io/trace"].exists(k, k in now && ` + differs("was", "now") + `) &&
      ` + authorKeys + `.exists(k, ` + differs("was", "now") + `)))))`

// statusTouches is true where a write of a status changes the controller reference or any
// annotation of Kausality, which built-in kinds store (KR-13-54). Very many annotations are not
// gone over: the system's own are compared then as in any write.
const statusTouches = `(has(request.subResource) && request.subResource == "status" && (` + parentChanges + ` || ` + annotationsChange + ` &&
[` + annotationsNow + `].exists(now, [` + annotationsWas + `].exists(was, size(now) <= 200 && size(was) <= 200 && (
  now.exists(k, k.startsWith("kausality.io/") && !(k in was && was[k] == now[k])) ||
  was.exists(k, k.startsWith("kausality.io/") && !(k in now)))))))`

// keptRemoved is true where a write removes one of keptKeys. They are compared one
// by one, since a loop takes twice as long.
var keptRemoved = func() string {
	var removed []string
	for _, k := range keptKeys {
		removed = append(removed, quote(k)+` in oldObject.metadata.annotations && !(has(object.metadata.annotations) && `+quote(k)+` in object.metadata.annotations)`)
	}
	return `(has(oldObject.metadata.annotations) && (` + strings.Join(removed, " || ") + `))`
}()

// differs returns a CEL expression that is true where annotation k is not the same in
// both maps.
func differs(was, now string) string {
	return `((k in ` + was + `) != (k in ` + now + `) || k in ` + now + ` && ` + was + `[k] != ` + now + `[k])`
}

var protectionVariables = []admissionregistrationv1.Variable{
	{Name: "now", Expression: annotationsNow},
	{Name: "was", Expression: annotationsWas},
	{Name: "manager", Expression: `has(request.options) && has(request.options.fieldManager) ? string(request.options.fieldManager) : ""`},
	{Name: "machine", Expression: `request.userInfo.username.startsWith("system:")`},
	// Controllers copy annotations from a parent to its children, and cannot
	// finish their work if they may not; the webhook puts them right later.
	{Name: "copies", Expression: `variables.manager.startsWith("apiextensions.crossplane.io/") || variables.machine &&
has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(r, has(r.controller) && r.controller)`},
	{Name: "removed", Expression: list(keptKeys) + `.filter(k, k in variables.was && !(k in variables.now))`},
	{Name: "status", Expression: `has(request.subResource) && request.subResource == "status"`},
	{Name: "touched", Expression: `size(variables.removed) > 0 ? variables.removed :
variables.status ? ["annotations and owners by a status"] :
` + systemKeys + `.filter(k, ` + differs("variables.was", "variables.now") + `)`},
}

// protectionPolicy protects the annotations that only Kausality writes while the
// webhook is down. While it is up, it has restored them before this policy is
// evaluated (KR-12-05).
func protectionPolicy(in *input) *admissionregistrationv1.ValidatingAdmissionPolicy {
	out := policy(annotationProtection, withStatuses(constraints(in.groups, admissionregistrationv1.Update), in.groups),
		admissionregistrationv1.MatchCondition{
			Name: "others-touch-kausality-annotation", Expression: "(" + touches + " ||\n" + statusTouches + ") &&\n" + notOwnWrite(in.components()),
		},
		protectionVariables,
		explain(checkValid("variables.copies && !variables.status", "annotations that only Kausality writes must stay as they are"),
			`"Kausality alone writes " + variables.touched.join(", ") + ": leave them as they are stored. `+
				`Its webhook puts them back by itself and does not answer now; write again without them, or when it does"`))
	out.Spec.FailurePolicy = new(admissionregistrationv1.Ignore) // an expression that fails must not refuse a request
	return out
}

// protectionBinding of an entry. What only logs warns, and a Namespace in which
// something more specific only logs is left out of what refuses: a binding knows
// Namespaces and no conditions.
//
// name is from bindingNames, or the name of the policy for the only entry of a fixed
// configuration.
func protectionBinding(name string, e entry) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	actions := []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn, admissionregistrationv1.Audit}
	if e.failurePolicy == admissionregistrationv1.Fail {
		actions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	}
	match := withStatuses(constraints(e.groups, admissionregistrationv1.Update), e.groups)
	never := append(slices.Clone(excludedNamespaces), e.lenient...)
	match.NamespaceSelector, match.ObjectSelector = e.namespaceSelector(never), e.objectSelector
	for i := range match.ResourceRules {
		match.ResourceRules[i].Scope = e.scope()
	}
	b := binding(name, annotationProtection, match, actions...)
	if e.name != "" {
		b.Annotations = map[string]string{annotationEntry: e.name}
	}
	return b
}

const (
	// maxBindings is how many entries are protected while the webhook is down.
	maxBindings = 100
	// annotationEntry of a binding names the webhook of its entry.
	annotationEntry = v1alpha1.AnnotationPrefix + "entry"
)

// WritesBinding reports whether the policy controller writes the binding of that name.
func WritesBinding(name string) bool { return slices.Contains(writtenBindings(), name) }

// writtenBindings returns the names of all bindings that the policy controller writes.
func writtenBindings() []string {
	return append([]string{orphanProtection, crdProtection, crdApproval, providerProtection, approverProtection}, bindingNames()...)
}

// bindingNames returns the names of bindings of annotationProtection. They are numbered, since
// RBAC grants access by name, and the policy controller has none to other bindings
// (KR-13-44).
func bindingNames() []string {
	out := make([]string, maxBindings)
	for i := range out {
		out[i] = annotationProtection + "-" + strconv.Itoa(i+1)
	}
	return out
}

// withStatuses matches the statuses of the resources of groups as well.
func withStatuses(m *admissionregistrationv1.MatchResources, groups []group) *admissionregistrationv1.MatchResources {
	for _, g := range groups {
		rule := entry{}.rule(g, "status", admissionregistrationv1.Update)
		m.ResourceRules = append(m.ResourceRules, admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: rule})
	}
	return m
}

// constraints match operations on the resources of groups, in any version.
func constraints(groups []group, operations ...admissionregistrationv1.OperationType) *admissionregistrationv1.MatchResources {
	m := &admissionregistrationv1.MatchResources{MatchPolicy: new(admissionregistrationv1.Equivalent)}
	for _, g := range groups {
		m.ResourceRules = append(m.ResourceRules, admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: entry{}.rule(g, "", operations...)})
	}
	return m
}

// namespaceModePolicy refuses an invalid mode on a Namespace (KR-05-21), and a mode and
// a freeze that could have no effect there (KR-14-38): Namespaces themselves are not sent
// to the webhook. One that has an invalid mode already may be changed.
func namespaceModePolicy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	out := policy(namespaceMode, constraints([]group{namespaces}, admissionregistrationv1.Create, admissionregistrationv1.Update),
		admissionregistrationv1.MatchCondition{Name: "has-mode",
			Expression: `has(object.metadata.annotations) && ["kausality.io/mode", "kausality.io/freeze"].exists(k, k in object.metadata.annotations)`},
		nil,
		checkValid(`!("kausality.io/mode" in object.metadata.annotations) || object.metadata.annotations["kausality.io/mode"] in ["log", "enforce"] ||
(oldObject != null && has(oldObject.metadata.annotations) && "kausality.io/mode" in oldObject.metadata.annotations &&
  oldObject.metadata.annotations["kausality.io/mode"] == object.metadata.annotations["kausality.io/mode"])`,
			"annotation kausality.io/mode must be log or enforce; remove it for the mode of the Kausality policy"),
		// No webhook is called there, so that nothing would be enforced (KR-12-10).
		checkValid(`!("kausality.io/mode" in object.metadata.annotations) ||
object.metadata.annotations["kausality.io/mode"] != "enforce" || !(object.metadata.name in `+list(excludedNamespaces)+`) ||
(oldObject != null && has(oldObject.metadata.annotations) && "kausality.io/mode" in oldObject.metadata.annotations &&
  oldObject.metadata.annotations["kausality.io/mode"] == "enforce")`,
			"annotation kausality.io/mode cannot be enforce here: in this Namespace nothing depends on Kausality, and nothing is enforced"),
		checkValid(`!("kausality.io/freeze" in object.metadata.annotations) || !(object.metadata.name in `+list(excludedNamespaces)+`) ||
object.metadata.annotations["kausality.io/freeze"] == "false" ||
(oldObject != null && has(oldObject.metadata.annotations) && "kausality.io/freeze" in oldObject.metadata.annotations)`,
			"annotation kausality.io/freeze cannot be set here: in this Namespace nothing depends on Kausality, and nothing is frozen"))
	out.Spec.FailurePolicy = new(admissionregistrationv1.Ignore)
	return out
}

// policy returns a policy that refuses what it matches if the condition is true and a validation is false.
func policy(name string, match *admissionregistrationv1.MatchResources, when admissionregistrationv1.MatchCondition,
	variables []admissionregistrationv1.Variable, validations ...admissionregistrationv1.Validation) *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta: registrationType("ValidatingAdmissionPolicy"), ObjectMeta: meta(name),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionregistrationv1.Fail), MatchConstraints: match,
			MatchConditions: []admissionregistrationv1.MatchCondition{when}, Variables: variables, Validations: validations,
		},
	}
}

// check forbids a request if the expression is false.
func check(expression, message string) admissionregistrationv1.Validation {
	return admissionregistrationv1.Validation{Expression: expression, Message: message, Reason: new(metav1.StatusReasonForbidden)}
}

// checkValid refuses an object as invalid if the expression is false.
func checkValid(expression, message string) admissionregistrationv1.Validation {
	return admissionregistrationv1.Validation{Expression: expression, Message: message, Reason: new(metav1.StatusReasonInvalid)}
}

// explain a check by an expression that returns its message.
func explain(v admissionregistrationv1.Validation, message string) admissionregistrationv1.Validation {
	v.MessageExpression = message
	return v
}

// everywhere returns the binding of a policy that refuses all that it matches.
func everywhere(policy string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return binding(policy, policy, nil, admissionregistrationv1.Deny)
}

// binding of a policy; match restricts where it holds, nil for everywhere.
func binding(name, policy string, match *admissionregistrationv1.MatchResources,
	actions ...admissionregistrationv1.ValidationAction) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: registrationType("ValidatingAdmissionPolicyBinding"), ObjectMeta: meta(name),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy, ValidationActions: actions, MatchResources: match},
	}
}
