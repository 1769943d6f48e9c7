package mask

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
