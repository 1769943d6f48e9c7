package fn

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Applied returns an observed composed resource as Crossplane's server-side apply
// of what the pipeline wants would leave it, by the ownership in its
// managedFields. The metadata stays as observed. Neither argument is modified;
// what does not change is shared. Like the function it knows no schema: defaults
// that the API server puts back for removed fields are not seen.
func Applied(observed, desired *unstructured.Unstructured) *unstructured.Unstructured {
	content := apply(observed.Object, desired.Object, own(toStruct(observed.Object)))
	content = maps.Clone(content)
	content["apiVersion"], content["kind"] = observed.Object["apiVersion"], observed.Object["kind"]
	content["metadata"] = observed.Object["metadata"]
	if status, ok := observed.Object["status"]; ok {
		content["status"] = status
	}
	defaultPolicies(observed.Object, content)
	return &unstructured.Unstructured{Object: content}
}
