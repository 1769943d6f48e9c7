package mask

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FieldManagementPolicies is the field of spec that holds management policies.
const FieldManagementPolicies = "managementPolicies"

// PoliciesOf an object: the value of spec.managementPolicies, nil where it has
// none. An item that is no string is the empty one.
func PoliciesOf(o *unstructured.Unstructured) []string {
	spec, _ := o.Object["spec"].(map[string]any)
	list, ok := spec[FieldManagementPolicies].([]any)
	if !ok {
		return nil
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, _ := e.(string)
		out = append(out, s)
	}
	return out
}

// WithPolicies returns an object with other policies, sharing what is equal; nil
// policies leave it as it is.
func WithPolicies(object map[string]any, policies []string) map[string]any {
	spec, ok := object["spec"].(map[string]any)
	if !ok || policies == nil {
		return object
	}
	if have, ok := spec[FieldManagementPolicies].([]any); ok && slices.EqualFunc(have, policies, func(a any, b string) bool { return a == b }) {
		return object
	}
	spec = maps.Clone(spec)
	list := make([]any, 0, len(policies))
	for _, p := range policies {
		list = append(list, p)
	}
	spec[FieldManagementPolicies] = list
	out := maps.Clone(object)
	out["spec"] = spec
	return out
}
