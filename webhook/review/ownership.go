package review

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	jsonpatch "gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
)

// owned returns the patches by which an applier still owns the fields that are put back. The API server removes its ownership of fields that it
// does not apply any more; without an owner they would stay once their removal is approved (KR-05-62).
func owned(req *admission.Request, rest *unstructured.Unstructured) []jsonpatch.Operation {
	if req.OldObject == nil {
		return nil
	}
	entries := req.Object.GetManagedFields()
	i := applier(entries, req.FieldManager)
	was := req.OldObject.GetManagedFields()
	j := applier(was, req.FieldManager)
	if i < 0 || j < 0 || entries[i].APIVersion != was[j].APIVersion {
		return nil
	}
	is, before := &fieldpath.Set{}, &fieldpath.Set{}
	if is.FromJSON(bytes.NewReader(entries[i].FieldsV1.Raw)) != nil || before.FromJSON(bytes.NewReader(was[j].FieldsV1.Raw)) != nil {
		return nil // the API server wrote both
	}
	kept := &fieldpath.Set{}
	before.Difference(is).Iterate(func(p fieldpath.Path) {
		if differs(req.Object.Object, rest.Object, p) {
			kept.Insert(p.Copy())
		}
	})
	if kept.Empty() {
		return nil
	}
	raw, err := is.Union(kept).ToJSON()
	if err != nil {
		return nil // it was read from JSON
	}
	path := change.Pointer("metadata", "managedFields", strconv.Itoa(i), "fieldsV1")
	return []jsonpatch.Operation{jsonpatch.NewOperation("replace", path, json.RawMessage(raw))}
}

// differs reports whether two objects differ at a path, or at the list or set that it is within.
func differs(a, b any, path fieldpath.Path) bool {
	for _, e := range path {
		if e.FieldName == nil {
			break
		}
		x, _ := a.(map[string]any)
		y, _ := b.(map[string]any)
		a, b = x[*e.FieldName], y[*e.FieldName]
	}
	return !equality.Semantic.DeepEqual(a, b)
}

// applier returns the index of the entry in which a field manager applies; -1 for none.
func applier(entries []metav1.ManagedFieldsEntry, manager string) int {
	return slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" && e.FieldsV1 != nil
	})
}
