package manifests

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kausality-io/function-kausality/admission/facts"
)

const (
	crdProtection      = "kausality-crd-protection"
	crdApproval        = "kausality-crd-approval"
	providerProtection = "kausality-provider-protection"
)

// allows returns a CEL expression that is true where the deletion of a CRD is allowed.
func allows(object string) string {
	return `has(` + object + `.metadata.annotations) && "kausality.io/allow-deletion" in ` + object + `.metadata.annotations &&
` + object + `.metadata.annotations["kausality.io/allow-deletion"] == "true"`
}

// customResources is the group of CRDs.
var customResources = []group{{name: "apiextensions.k8s.io", resources: []string{"customresourcedefinitions"}}}

// Masked are the CRDs whose objects are masked.
type Masked struct {
	// CRDs by name, in order.
	CRDs []string
	// Providers of Crossplane, by name, each with those of its CRDs whose deletion is not allowed, in order.
	Providers map[string][]string
}

const (
	// perVariable bounds the elements of one variable: an expression has 100,000 characters at the most.
	perVariable = 400
	// perProvider bounds the CRDs that are named for a Provider.
	perProvider = 15
	maskedName  = "masked"
)

// crdPolicy refuses the deletion of CRDs whose objects are masked (KR-13-29): the finalizer of a CRD deletes its
// objects past admission, and a provider leaves the external resource of a masked one behind. Their names are in the
// policy itself and in no parameter: they remain when a Kausality policy goes (KR-13-57).
func crdPolicy(m Masked) *admissionregistrationv1.ValidatingAdmissionPolicy {
	lists := variables(slices.Collect(slices.Chunk(m.CRDs, perVariable)), []string{})
	return policy(crdProtection, constraints(customResources, admissionregistrationv1.Delete), notDeleting, lists, explain(
		check(`!`+allOf(lists)+`.exists(names, oldObject.metadata.name in names) || `+allows("oldObject"),
			"objects of this kind are masked by Kausality: deleting their CRD would leave their external resources behind"),
		`"objects of CustomResourceDefinition " + oldObject.metadata.name + " are masked by Kausality: deleting it would delete them `+
			`past all checks, and leave their external resources behind. To delete it nevertheless: kubectl annotate customresourcedefinitions " + `+
			`oldObject.metadata.name + " kausality.io/allow-deletion=true"`))
}

// providerPolicy refuses the deletion of Providers of Crossplane that own such CRDs (KR-13-57): the garbage collector
// deletes the CRDs and the Deployment of a provider after it. Their CRDs would remain, with objects that no provider
// observes, and the reason would be known to the garbage collector alone.
func providerPolicy(m Masked) *admissionregistrationv1.ValidatingAdmissionPolicy {
	var chunks []map[string][]string
	for names := range slices.Chunk(slices.Sorted(maps.Keys(m.Providers)), perVariable/perProvider) {
		chunk := map[string][]string{}
		for _, name := range names {
			crds := m.Providers[name]
			chunk[name] = crds[:min(len(crds), perProvider)]
		}
		chunks = append(chunks, chunk)
	}
	all := variables(chunks, map[string][]string{})
	packages := []group{{name: "pkg.crossplane.io", resources: []string{"providers"}}}
	return policy(providerProtection, constraints(packages, admissionregistrationv1.Delete), notDeleting, all, explain(
		check(`!`+allOf(all)+`.exists(crds, oldObject.metadata.name in crds)`,
			"objects of this provider are masked by Kausality: deleting it would leave their external resources behind"),
		`"objects of Provider " + oldObject.metadata.name + " are masked by Kausality: uninstalling it would delete their `+
			`CustomResourceDefinitions, and leave their external resources behind. To uninstall it nevertheless: kubectl annotate `+
			`customresourcedefinitions " + `+allOf(all)+`.filter(crds, oldObject.metadata.name in crds)[0][oldObject.metadata.name].join(" ") + `+
			`" kausality.io/allow-deletion=true"`))
}

var notDeleting = admissionregistrationv1.MatchCondition{Name: "not-deleting", Expression: `!has(oldObject.metadata.deletionTimestamp)`}

// variables returns a variable for each value, in JSON, which is valid CEL; one with the empty value for no values.
func variables[T any](values []T, empty T) []admissionregistrationv1.Variable {
	if len(values) == 0 {
		values = []T{empty}
	}
	out := make([]admissionregistrationv1.Variable, 0, len(values))
	for i, v := range values {
		out = append(out, admissionregistrationv1.Variable{Name: maskedName + strconv.Itoa(i), Expression: literal(v)})
	}
	return out
}

// allOf returns a CEL expression for the list of the variables.
func allOf(vs []admissionregistrationv1.Variable) string {
	names := make([]string, 0, len(vs))
	for _, v := range vs {
		names = append(names, "variables."+v.Name)
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// MaskedPolicies returns those of the policies of Guard that depend on what is masked.
func MaskedPolicies(m Masked) []*admissionregistrationv1.ValidatingAdmissionPolicy {
	return []*admissionregistrationv1.ValidatingAdmissionPolicy{crdPolicy(m), providerPolicy(m)}
}

// Read what a stored one of these policies protects; nothing of one that an earlier version wrote.
func (m *Masked) Read(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
	for _, v := range p.Spec.Variables {
		var crds []string
		if strings.HasPrefix(v.Name, maskedName) && json.Unmarshal([]byte(v.Expression), &crds) == nil {
			m.CRDs = append(m.CRDs, crds...)
		}
		if m.Providers == nil {
			m.Providers = map[string][]string{}
		}
		var byProvider map[string][]string
		if strings.HasPrefix(v.Name, maskedName) && json.Unmarshal([]byte(v.Expression), &byProvider) == nil {
			maps.Copy(m.Providers, byProvider)
		}
	}
}

// crdApprovalPolicy requires the right to approve of users who set the annotation that allows the deletion of a CRD
// (KR-13-29). It is evaluated for writes of that annotation alone.
func crdApprovalPolicy(a facts.ApproverRBAC) *admissionregistrationv1.ValidatingAdmissionPolicy {
	return policy(crdApproval, constraints(customResources, admissionregistrationv1.Create, admissionregistrationv1.Update),
		admissionregistrationv1.MatchCondition{Name: "allows-deletion",
			Expression: `(` + allows("object") + `) && (oldObject == null || !(` + allows("oldObject") + `))`},
		nil,
		check(rightTo(a, `authorizer.group("apiextensions.k8s.io").resource("customresourcedefinitions")`, `.name(object.metadata.name)`),
			"setting kausality.io/allow-deletion on a CustomResourceDefinition requires the verb approve on its subresource approval; "+
				"an approver can set it"))
}
