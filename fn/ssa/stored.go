package ssa

import (
	"maps"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/mask"
)

// Applied reports whether the pipeline applied every field of the desired state of an object, and no other manager has changed or removed
// one since: that takes the field from who applied it (KEP-555).
func (o *Ownership) Applied(desired map[string]any) bool {
	return len(o.composed) > 0 && appliedBelow(change.Desired(desired), o.composed)
}

// appliedBelow reports whether a set holds all fields of a map.
func appliedBelow(fields map[string]any, set fieldSet) bool {
	for name, v := range fields {
		if v != nil && !appliedAt(v, fieldKey(name), set) {
			return false
		}
	}
	return true
}

// appliedAt reports whether a set holds a value, under a key.
func appliedAt(v any, key string, set fieldSet) bool {
	below := set.below(key)
	switch v := v.(type) {
	case map[string]any:
		// That of an atomic map looks like that of a map of which others took all fields.
		return len(v) == 0 && set.holds(key) || below != nil && appliedBelow(v, below)
	case []any:
		if below == nil {
			break
		}
		owned := below.items()
		t := listTypeOf(owned)
		for _, item := range v {
			if key, ok := t.find(owned, item); !ok || !appliedAt(item, key, below) {
				return false
			}
		}
		return true
	}
	return set.holds(key)
}

// Stored returns a desired object with the values that are observed, without the fields that are not. The managementPolicies stay, which
// gates change. No argument is modified.
func Stored(observed, desired map[string]any) map[string]any {
	out := maps.Clone(desired)
	for k := range change.Desired(desired) {
		if is, ok := observed[k]; ok {
			out[k] = is
		} else {
			delete(out, k)
		}
	}
	if policies, ok := Child(desired, "spec")[mask.FieldManagementPolicies]; ok {
		spec := Clone(Child(out, "spec"))
		spec[mask.FieldManagementPolicies], out["spec"] = policies, spec
	}
	return out
}
