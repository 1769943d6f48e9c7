package parent

import (
	"slices"
	"strings"
)

// Object returns what the State knows of the object, for expressions of policies: identity,
// Kausality's annotations, Crossplane's labels, observed generation and conditions.
func (s *State) Object() map[string]any {
	apiVersion, kind := s.ToAPIVersionAndKind()
	meta := map[string]any{"name": s.Name, "uid": string(s.UID), "generation": s.Generation}
	if s.Namespace != "" {
		meta["namespace"] = s.Namespace
	}
	for key, values := range map[string]map[string]string{"annotations": s.Annotations, "labels": s.Labels} {
		if len(values) > 0 {
			m := make(map[string]any, len(values))
			for k, v := range values {
				m[k] = v
			}
			meta[key] = m
		}
	}
	out := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
	if s.HasStatus {
		out["status"] = s.statusObject()
	}
	return out
}

func (s *State) statusObject() map[string]any {
	status := map[string]any{}
	if s.HasObserved && !s.Crossplane() { // Crossplane's kinds have it in conditions alone
		status["observedGeneration"] = s.ObservedGeneration
	}
	var conditions []any
	for _, c := range slices.SortedFunc(slices.Values(s.Conditions), func(a, b Condition) int { return strings.Compare(a.Type, b.Type) }) {
		conditions = append(conditions, map[string]any{"type": c.Type, "status": string(c.Status), "reason": c.Reason})
	}
	status["conditions"] = conditions
	return status
}
