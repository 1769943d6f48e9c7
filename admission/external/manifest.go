package external

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kausality-io/function-kausality/admission/builtin"
)

// manifest is the field of spec.forProvider and status.atProvider that has an object of Kubernetes,
// as of an Object of provider-kubernetes.
const manifest = "manifest"

// isManifest reports whether a value is an object of Kubernetes.
func isManifest(m map[string]any) bool {
	apiVersion, _ := m["apiVersion"].(string)
	kind, _ := m["kind"].(string)
	return apiVersion != "" && kind != ""
}

// manifest compares an object of Kubernetes with the one that the API server returned. The returned one has the form
// that the API server stores, and all fields that it stores (KR-08-44).
func (c *comparer) manifest(path string, want, have map[string]any) {
	aligned, known := builtin.Align(want, have, managerOf(have))
	c.exact, c.complete = known, known
	if metadata, ok := aligned["metadata"].(map[string]any); ok && !known {
		observed, _ := have["metadata"].(map[string]any) // nil where there is none
		inner := comparer{exact: true, complete: true}
		inner.maps(path+".metadata", metadata, observed)
		c.out = append(c.out, inner.out...)
		delete(aligned, "metadata")
	}
	c.maps(path, aligned, have)
}

// managerOf returns the manager of an observed object: provider-kubernetes with --enable-server-side-apply has a
// manager for each Object.
func managerOf(have map[string]any) builtin.Manager {
	metadata, _ := have["metadata"].(map[string]any) // nil where there is none
	list, _ := metadata["managedFields"].([]any)
	for _, e := range list {
		entry, _ := e.(map[string]any) // another shape has no manager
		name, _ := entry["manager"].(string)
		if entry["operation"] == "Apply" && strings.HasPrefix(name, "provider-kubernetes/") {
			return builtin.Shares
		}
	}
	return builtin.Replaces
}

// Inert reports whether the provider of an object makes no change to its external resource, although
// that differs: provider-kubernetes without server-side apply compares the manifest with the one that it
// applied last, and not with the object (KR-08-46).
func Inert(content map[string]any) bool {
	want, ok := at(content, "spec", "forProvider", manifest)
	if !ok {
		return false
	}
	have, ok := at(content, "status", "atProvider", manifest)
	if !ok || managerOf(have) != builtin.Replaces {
		return false
	}
	annotations, _ := at(have, "metadata", "annotations")
	text, ok := annotations[corev1.LastAppliedConfigAnnotation].(string)
	if !ok {
		return false
	}
	raw, err := json.Marshal(want)
	if err != nil {
		return false
	}
	x, ok := document(string(raw))
	y, both := document(text)
	return ok && both && sameDocument(x, y)
}
