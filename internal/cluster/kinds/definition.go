package kinds

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// builtinScalePath is where Kubernetes' own kinds have their replicas.
const builtinScalePath = "spec.replicas"

// definition is what is kept of a CRD: its served versions.
type definition struct {
	informer.Meta
	versions []version
}

// version of a kind.
type version struct {
	Info
	// lists in its schema; nil for none.
	lists change.Lists
	// defaults of its schema; nil for a version that is not of managed resources.
	defaults *change.Defaults
}

// definitionOf a CRD.
func definitionOf(o *unstructured.Unstructured) *definition {
	out := &definition{Meta: informer.MetaOf(o)}
	for _, v := range served(o) {
		one := version{Info: infoOf(o, v), lists: change.SchemaLists(property(v))}
		if masked, _ := managementPolicies(v); masked { // typed clients add them to objects that have none (KR-07-08)
			one.defaults = change.SchemaDefaults(property(v))
		}
		out.versions = append(out.versions, one)
	}
	return out
}

// served versions of a CRD.
func served(o *unstructured.Unstructured) []map[string]any {
	spec, _ := o.Object["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	var out []map[string]any
	for _, e := range versions {
		v, _ := e.(map[string]any)
		if served, _ := v["served"].(bool); served {
			out = append(out, v)
		}
	}
	return out
}

// InfosOf a CRD, one for each served version.
func InfosOf(o *unstructured.Unstructured) []Info {
	var out []Info
	for _, v := range served(o) {
		out = append(out, infoOf(o, v))
	}
	return out
}

// infoOf a version of a CRD.
func infoOf(o *unstructured.Unstructured, v map[string]any) Info {
	spec, _ := o.Object["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	group, _ := spec["group"].(string)
	kind, _ := names["kind"].(string)
	plural, _ := names["plural"].(string)
	scope, _ := spec["scope"].(string)
	name, _ := v["name"].(string)
	storage, _ := v["storage"].(bool)
	i := Info{
		GVK: schema.GroupVersionKind{Group: group, Version: name, Kind: kind}, Storage: storage,
		GVR: schema.GroupVersionResource{Group: group, Version: name, Resource: plural}, Namespaced: scope == "Namespaced",
	}
	i.Resource = plural + "." + group
	i.Graph = GraphOf(o)
	if i.Kind.ManagementPolicies, i.Runtime = managementPolicies(v); i.Graph != "" {
		i.Kind.ManagementPolicies = false // a field of the author's of the graph, which kro does not heed
	}
	i.SecretFields = change.SchemaSecrets(property(v))
	i.ReconcileRequests = property(v, "status", "lastHandledReconcileAt") != nil
	i.ScalePath = scalePath(v)
	_, i.Status, _ = unstructured.NestedFieldNoCopy(v, "subresources", "status") // the API server validated it
	i.Role = role(o, names, i.Kind.ManagementPolicies)
	return i
}

// Labels of the CRDs that kro makes (v0.9.3, pkg/metadata/labels.go).
const (
	// LabelGraphOwned is "true".
	LabelGraphOwned = "kro.run/owned"
	// LabelGraphVersion is the release of kro, as in v0.9.3.
	LabelGraphVersion = "kro.run/kro-version"
)

// GraphOf a CRD: the graph of kro that made it, "" for none. It has no owner; these labels are how kro itself knows its CRDs (v0.9.3,
// pkg/metadata CompareRGDOwnership). One with another owner, as those of providers and XRDs have, is not kro's, nor one that a graph has
// as a resource: their labels may be another user's.
func GraphOf(o metav1.Object) string {
	labels := o.GetLabels()
	_, child := labels["kro.run/instance-id"]
	_, node := labels["kro.run/node-id"]
	_, part := labels["applyset.kubernetes.io/part-of"]
	foreign := slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return !strings.HasPrefix(r.APIVersion, "kro.run/") })
	if labels[LabelGraphOwned] != "true" || child || node || part || foreign {
		return ""
	}
	return labels["kro.run/resource-graph-definition-name"]
}

// scalePath of a CRD's version; "" where it has no scale subresource.
func scalePath(version map[string]any) string {
	path, _, err := unstructured.NestedString(version, "subresources", "scale", "specReplicasPath")
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(path, ".")
}

// property of a version's schema by its path.
func property(version map[string]any, path ...string) map[string]any {
	s, _ := version["schema"].(map[string]any)
	at, _ := s["openAPIV3Schema"].(map[string]any)
	for _, p := range path {
		props, _ := at["properties"].(map[string]any)
		at, _ = props[p].(map[string]any)
	}
	return at
}

// managementPolicies reports whether a version has the field, and which runtime
// its description shows. Up to v1.13 the field was an alpha one. From v1.14 on all
// CRDs describe it alike, so that an older runtime does not show here; the gate
// recognises it by what the provider answers.
func managementPolicies(version map[string]any) (bool, mask.Runtime) {
	field := property(version, "spec", "managementPolicies")
	if text, _ := field["description"].(string); strings.Contains(text, "ALPHA FIELD") {
		return true, mask.RuntimeLegacy
	}
	return field != nil, mask.RuntimeCurrent
}

// role of a CRD's kinds (KR-01-04).
func role(o *unstructured.Unstructured, names map[string]any, policies bool) parent.Role {
	categories, _, err := unstructured.NestedStringSlice(names, "categories")
	if err != nil {
		categories = nil
	}
	owned := slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.Kind == "CompositeResourceDefinition" && strings.HasPrefix(r.APIVersion, "apiextensions.crossplane.io/")
	})
	switch {
	case GraphOf(o) != "": // the categories are the author's of the graph
		return parent.RoleInstance
	case policies, slices.Contains(categories, "managed"):
		return parent.RoleManaged
	case slices.Contains(categories, "claim"):
		return parent.RoleClaim
	case owned, slices.Contains(categories, "composite"):
		return parent.RoleComposite
	}
	return parent.RoleNone
}
