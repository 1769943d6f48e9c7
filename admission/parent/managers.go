package parent

import (
	"bytes"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

func gvk(apiVersion, kind string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

// managers reads from managedFields who reconciles the object, and when people
// last changed its desired state.
func (s *State) managers(o *unstructured.Unstructured) {
	entries := o.GetManagedFields()
	for _, e := range entries {
		if e.Subresource == "status" && !slices.Contains(s.StatusManagers, e.Manager) {
			s.StatusManagers = append(s.StatusManagers, e.Manager)
		}
	}
	s.Manager = s.deciding(entries)
	machinery := Machinery(s.Role, modern(o))
	for _, e := range entries {
		if e.Time == nil {
			continue
		}
		switch {
		case e.Subresource == "scale":
			if e.Time.After(s.ScaleTime) {
				s.ScaleTime = e.Time.Time
			}
		case e.Subresource == "" && !slices.Contains(s.StatusManagers, e.Manager) && e.Time.After(s.IntentTime):
			if ownsDesired(fields(e), machinery) {
				s.IntentTime, s.IntentManager = e.Time.Time, e.Manager
			}
		}
	}
}

func modern(o *unstructured.Unstructured) bool {
	_, found, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "crossplane")
	return found && err == nil
}

// deciding returns the manager of status.observedGeneration, else of the
// Synced, else of the Ready condition.
func (s *State) deciding(entries []metav1.ManagedFieldsEntry) string {
	marks := [][]byte{[]byte(`"f:observedGeneration"`), []byte(`"Synced`), []byte(`\"Synced\"`), []byte(`\"Ready\"`)}
	for _, mark := range marks {
		for _, e := range entries {
			if e.Subresource == "status" && e.FieldsV1 != nil && bytes.Contains(e.FieldsV1.Raw, mark) {
				return e.Manager
			}
		}
	}
	return ""
}

func fields(e metav1.ManagedFieldsEntry) *fieldpath.Set {
	set := fieldpath.NewSet()
	if e.FieldsV1 == nil || set.FromJSON(bytes.NewReader(e.FieldsV1.Raw)) != nil {
		return fieldpath.NewSet()
	}
	return set
}

// ownsDesired reports whether a set holds a field of the desired state outside
// of the machinery.
func ownsDesired(set *fieldpath.Set, machinery map[string]bool) bool {
	found := false
	set.Leaves().Iterate(func(p fieldpath.Path) {
		if found || len(p) == 0 || p[0].FieldName == nil {
			return
		}
		switch *p[0].FieldName {
		case "apiVersion", "kind", "metadata", "status":
			return
		case "spec":
			if len(p) > 1 && p[1].FieldName != nil && machinery[*p[1].FieldName] {
				return
			}
			if len(p) == 1 {
				return
			}
		}
		found = true
	})
	return found
}

// OwnedBy returns the field set that a manager applied to an object, empty
// where it applied none. prefix matches the manager's name.
func OwnedBy(o *unstructured.Unstructured, prefix string) *fieldpath.Set {
	out := fieldpath.NewSet()
	for _, e := range o.GetManagedFields() {
		if e.Subresource == "" && e.Operation == metav1.ManagedFieldsOperationApply && strings.HasPrefix(e.Manager, prefix) {
			out = out.Union(fields(e))
		}
	}
	return out
}
