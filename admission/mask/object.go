package mask

import (
	"maps"
	"slices"
)

// FieldManagementPolicies is the field of spec that holds management policies.
const FieldManagementPolicies = "managementPolicies"

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
