package manifests

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/settings"
)

const (
	celNamespace = `(has(request.namespace) ? request.namespace : "")`
	// celLabels of the stored object, as decisions take them.
	celLabels = `(oldObject != null ? (has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}) : ` +
		`(has(object.metadata.labels) ? object.metadata.labels : {}))`
)

// covers returns a CEL expression that is true where a Scope holds for a request. Of
// an entry's own Scope it compares only the resources: the webhook's selectors
// cover the rest.
func covers(s settings.Scope, own bool) string {
	parts := []string{"request.resource.group in " + list(s.APIGroups)}
	switch {
	case len(s.Excluded) > 0:
		parts = append(parts, "!(request.resource.resource in "+list(s.Excluded)+")")
	case !slices.Contains(s.Resources, all):
		parts = append(parts, "request.resource.resource in "+list(s.Resources))
	}
	if !own {
		if s.Namespaces != nil {
			parts = append(parts, celNamespace+" in "+list(s.Namespaces))
		}
		if len(s.ExcludedNamespaces) > 0 {
			parts = append(parts, "!("+celNamespace+" in "+list(s.ExcludedNamespaces)+")")
		}
		parts = append(parts, selects(s.ObjectSelector)...)
	}
	return "(" + strings.Join(parts, " && ") + ")"
}

// selects returns CEL expressions that are all true where the labels match.
func selects(s *metav1.LabelSelector) []string {
	if s == nil {
		return nil
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		out = append(out, label(k, metav1.LabelSelectorOpIn, []string{s.MatchLabels[k]}))
	}
	for _, r := range s.MatchExpressions {
		out = append(out, label(r.Key, r.Operator, r.Values))
	}
	return out
}

// label returns a CEL expression for one requirement of a label selector.
func label(key string, op metav1.LabelSelectorOperator, values []string) string {
	has := quote(key) + " in " + celLabels
	in := "(" + has + " && " + celLabels + "[" + quote(key) + "] in " + list(values) + ")"
	switch op {
	case metav1.LabelSelectorOpIn:
		return in
	case metav1.LabelSelectorOpNotIn:
		return "!" + in
	case metav1.LabelSelectorOpDoesNotExist:
		return "!(" + has + ")"
	}
	return "(" + has + ")"
}

// list of strings in CEL. They were validated: names of groups, resources,
// Namespaces and users, and labels.
func list(values []string) string {
	out := make([]string, 0, len(values))
	for _, v := range values {
		out = append(out, quote(v))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
