package external

import (
	"encoding/json"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// MaskPath returns the field that closes the gate of an object without managementPolicies; nil for kinds that have no
// such gate.
func MaskPath(gk schema.GroupKind) []string {
	switch gk {
	case schema.GroupKind{Group: "infra.contrib.fluxcd.io", Kind: "Terraform"}:
		return []string{"spec", "approvePlan"}
	case schema.GroupKind{Group: "argoproj.io", Kind: "Application"}:
		return []string{"spec", "syncPolicy", "automated", "enabled"}
	}
	return nil
}

// Remask reports whether a write restores the author's value, which an object
// remembers, over the stored mask: GitOps tools do on every reconcile.
// masked is the incoming desired state with the stored value in its place, and
// value the stored one. The inputs are not modified.
func Remask(path []string, stored, incoming map[string]any) (masked map[string]any, value any, ok bool) {
	meta, _ := at(stored, "metadata", "annotations")
	author, _ := meta[v1alpha1.AnnotationKeyExternalAuthor].(string)
	if len(path) == 0 || author == "" {
		return nil, nil, false
	}
	var remembered any
	if json.Unmarshal([]byte(author), &remembered) != nil {
		return nil, nil, false
	}
	last := len(path) - 1
	was, okWas := at(stored, path[:last]...)
	is, okIs := at(incoming, path[:last]...)
	value, stands := was[path[last]]
	if !okWas || !okIs || !stands || reflect.DeepEqual(is[path[last]], value) || !reflect.DeepEqual(is[path[last]], remembered) {
		return nil, nil, false
	}
	return with(incoming, path, value), value, true
}

// with returns content with a value at a path. It shares the fields that are not on the path.
func with(content map[string]any, path []string, value any) map[string]any {
	out := maps.Clone(content)
	if len(path) == 1 {
		out[path[0]] = value
		return out
	}
	below, _ := content[path[0]].(map[string]any)
	out[path[0]] = with(below, path[1:], value)
	return out
}
