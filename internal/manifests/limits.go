package manifests

import (
	"encoding/json"
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Names of what limits the policy controller.
const (
	limitsRoles    = "kausality-controller-roles"
	limitsWebhooks = "kausality-controller-webhooks"
	limitsSecrets  = "kausality-controller-secrets"
	limitsPolicies = "kausality-controller-policies"
	limitsDerived  = "kausality-controller-derived"

	// urlPlaceholder is replaced by the chart, where webhook.url is set.
	urlPlaceholder = "https://webhook.url.invalid"
)

// grantable verbs of the roles that the policy controller writes, by their names, and the labels by
// which these are aggregated.
var (
	grantable = map[string][]string{
		RoleWebhookPolicies: webhookVerbs, RoleGatePolicies: gateVerbs, RoleControllerPolicies: {"list"},
	}
	aggregates = map[string]string{
		RoleWebhookPolicies: labelOf(componentWebhook), RoleGatePolicies: labelOf(componentGate), RoleControllerPolicies: labelOf(componentController),
	}
)

// controllerLimits refuse what the policy controller never writes, although RBAC, which knows names
// and no contents, allows it: with its token a user gets no access of its own (KR-13-44). They are
// installed by the chart, and the policy controller may not change them: it has no access to
// ValidatingAdmissionPolicies and bindings of other names. On these themselves no policy is evaluated.
func controllerLimits() []any {
	return []any{
		limits(limitsRoles, group{name: "rbac.authorization.k8s.io", resources: []string{"clusterroles"}}, roleVariables(), roleValidations()),
		limits(limitsWebhooks, group{name: "admissionregistration.k8s.io",
			resources: []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}}, nil, webhookValidations()),
		limits(limitsSecrets, group{resources: []string{"secrets"}}, nil, secretValidations()),
		limits(limitsPolicies, group{name: v1alpha1.Group, resources: []string{v1alpha1.ResourceKausalities}}, nil, policyValidations()),
		limits(limitsDerived, group{name: v1alpha1.Group, resources: []string{v1alpha1.ResourceAllowancePolicies}}, nil, derivedValidations(),
			admissionregistrationv1.Delete),
		everywhere(limitsDerived), everywhere(limitsRoles), everywhere(limitsWebhooks), everywhere(limitsSecrets), everywhere(limitsPolicies),
	}
}

// limits on what the policy controller creates and updates, and on other operations.
func limits(name string, of group, variables []admissionregistrationv1.Variable, validations []admissionregistrationv1.Validation,
	also ...admissionregistrationv1.OperationType) *admissionregistrationv1.ValidatingAdmissionPolicy {
	operations := append([]admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}, also...)
	return policy(name, constraints([]group{of}, operations...), admissionregistrationv1.MatchCondition{Name: "by-the-policy-controller",
		Expression: `request.userInfo.username == ` + quote(serviceAccountPrefix+Namespace+":"+componentController)}, variables, validations...)
}

func roleVariables() []admissionregistrationv1.Variable {
	return []admissionregistrationv1.Variable{
		{Name: "grantable", Expression: literal(grantable)},
		{Name: "aggregates", Expression: literal(aggregates)},
		{Name: "rules", Expression: `has(object.rules) ? object.rules : []`},
		{Name: "was", Expression: `oldObject != null && has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}`},
	}
}

// custom is a CEL expression that is true where CRDs serve a group, as group.custom.
const custom = `(g.contains(".") && !g.endsWith(".k8s.io"))`

func roleValidations() []admissionregistrationv1.Validation {
	denied := slices.Sorted(maps.Keys(deniedGroups))
	core := slices.Sorted(maps.Keys(deniedCore))
	return []admissionregistrationv1.Validation{
		check(`object.metadata.name in variables.grantable && !has(object.aggregationRule)`,
			"the policy controller writes the roles of policies alone, without aggregation"),
		check(`variables.rules.all(r, has(r.apiGroups) && has(r.resources) && !has(r.nonResourceURLs) &&
r.verbs.all(v, v in variables.grantable[object.metadata.name]))`,
			"the policy controller grants no such verb"),
		check(`variables.rules.all(r, r.apiGroups.all(g, !g.contains("*") && !(g in `+literal(append(denied, "certificates.k8s.io"))+`) &&
(object.metadata.name != `+quote(RoleControllerPolicies)+` || `+custom+`)))`,
			"the policy controller grants no access to this API group"),
		check(`variables.rules.all(r, r.resources.all(x, !x.contains("/") &&
r.apiGroups.all(g, g != "" || x != "*" && !(x in `+literal(core)+`))))`,
			"the policy controller grants no access to this resource"),
		check(`!has(object.metadata.labels) || object.metadata.labels.all(k,
k in variables.was && variables.was[k] == object.metadata.labels[k] ||
k in ["app.kubernetes.io/name", "app.kubernetes.io/managed-by", variables.aggregates[object.metadata.name]])`,
			"the policy controller adds no such label, by which other roles may be aggregated"),
	}
}

func webhookValidations() []admissionregistrationv1.Validation {
	return []admissionregistrationv1.Validation{
		check(`!has(object.webhooks) || object.webhooks.all(w, has(w.clientConfig.service) ?
w.clientConfig.service.namespace == `+quote(Namespace)+` && w.clientConfig.service.name == `+quote(componentWebhook)+` :
has(w.clientConfig.url) && w.clientConfig.url.startsWith(`+quote(urlPlaceholder+"/")+`))`,
			"the policy controller configures no webhook but that of Kausality"),
		check(`!has(object.webhooks) || object.webhooks.all(w, !has(w.rules) || w.rules.all(r, !r.apiGroups.exists(g, g.contains("*"))))`,
			"the policy controller configures no webhook for all API groups"),
		check(`!has(object.webhooks) || object.webhooks.all(w, has(w.failurePolicy) && w.failurePolicy == "Ignore" ||
has(w.namespaceSelector) && has(w.namespaceSelector.matchExpressions) && w.namespaceSelector.matchExpressions.exists(e,
e.key == `+quote(corev1.LabelMetadataName)+` && e.operator == "NotIn" && `+literal(excludedNamespaces)+`.all(n, n in e.values)))`,
			"the policy controller configures no webhook that refuses writes in the Namespaces of the cluster while it is down"),
	}
}

func secretValidations() []admissionregistrationv1.Validation {
	return []admissionregistrationv1.Validation{
		check(`object.metadata.namespace == `+quote(Namespace)+` && object.metadata.name in `+literal([]string{SecretServing, SecretAuthority, SecretClaimsKey})+` &&
object.type in ["Opaque", "kubernetes.io/tls"]`,
			"the policy controller writes its certificates and the key that seals claims alone"),
	}
}

func policyValidations() []admissionregistrationv1.Validation {
	return []admissionregistrationv1.Validation{
		check(`object.metadata.name == `+quote(AuthorsPolicy)+` && has(object.spec.traceOnly) && object.spec.traceOnly &&
object.spec.resources.all(r, r.apiGroups.all(g, g.endsWith(".crossplane.io")) && !("*" in r.resources))`,
			"the policy controller creates no policy but the one that traces authors"),
	}
}

// derivedValidations protect the policies of other writers, and forbid derived policies that permit more than a graph can. The garbage collector
// removes the policies of a graph that does not exist.
func derivedValidations() []admissionregistrationv1.Validation {
	const from = `'` + v1alpha1.AnnotationKeyDerivedFrom + `'`
	return []admissionregistrationv1.Validation{
		check(`object == null || has(object.metadata.annotations) && `+from+` in object.metadata.annotations && has(object.metadata.ownerReferences) &&
object.metadata.ownerReferences.size() == 1 && object.metadata.ownerReferences.all(o, o.kind == "ResourceGraphDefinition" &&
o.apiVersion.startsWith("kro.run/") && o.name == object.metadata.annotations[`+from+`])`,
			"the policy controller writes no AllowancePolicies but those of a ResourceGraphDefinition"),
		check(`oldObject == null || has(oldObject.metadata.ownerReferences) &&
oldObject.metadata.ownerReferences.exists(o, o.kind == "ResourceGraphDefinition") ||
has(oldObject.metadata.labels) && "app.kubernetes.io/managed-by" in oldObject.metadata.labels &&
oldObject.metadata.labels["app.kubernetes.io/managed-by"] == `+quote(v1alpha1.ManagerController),
			"the policy controller changes and deletes no AllowancePolicy that it did not write"),
		check(`object == null || has(object.spec.target) && !has(object.spec.deleting) && (!has(object.spec.rules) || object.spec.rules.all(r,
r.allow.all(a, a.relation != "External" || a.verbs == ["Update"])))`,
			"the policy controller derives no permission to delete an external resource"),
	}
}

// literal returns a value of strings and the like in CEL: its JSON.
func literal(v any) string {
	raw, _ := json.Marshal(v) //nolint:errchkjson // Strings and the like alone.
	return string(raw)
}

// labelOf a component, by which roles are aggregated to its own.
func labelOf(component string) string {
	return aggregateLabel + component[len(v1alpha1.ManagerPrefix):]
}
