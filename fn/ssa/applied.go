package ssa

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Applied returns an observed composed resource as Crossplane's server-side apply
// of what the pipeline wants would leave it, by the ownership in its
// managedFields. The metadata stays as observed. Neither argument is modified;
// what does not change is shared. Like the function it knows no schema: defaults
// that the API server puts back for removed fields are not seen.
func Applied(observed, desired *unstructured.Unstructured) *unstructured.Unstructured {
	content := Apply(observed.Object, desired.Object, Own(ToStruct(observed.Object)))
	content = maps.Clone(content)
	content["apiVersion"], content["kind"] = observed.Object["apiVersion"], observed.Object["kind"]
	content["metadata"] = observed.Object["metadata"]
	if status, ok := observed.Object["status"]; ok {
		content["status"] = status
	}
	DefaultPolicies(observed.Object, content)
	return &unstructured.Unstructured{Object: content}
}

// OwnerReferences returns the ownerReferences that Crossplane sets on the composed resources of a
// composite.
func OwnerReferences(xr parent.Ref) []any {
	apiVersion, kind := xr.ToAPIVersionAndKind()
	return []any{map[string]any{
		"apiVersion": apiVersion, "kind": kind, "name": xr.Name, "uid": string(xr.UID),
		"controller": true, "blockOwnerDeletion": true,
	}}
}

// DefaultPolicies puts back the default of spec.managementPolicies, which is
// the same in all CRDs of managed resources, where the apply takes it away.
func DefaultPolicies(observed, content map[string]any) {
	spec, had := Child(content, "spec"), Child(observed, "spec")["managementPolicies"]
	if spec == nil || had == nil || spec["managementPolicies"] != nil {
		return
	}
	spec = maps.Clone(spec)
	spec["managementPolicies"] = []any{string(v1alpha1.VerbAll)}
	content["spec"] = spec
}
