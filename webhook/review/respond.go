package review

import (
	"maps"
	"net/http"
	"slices"

	jsonpatch "gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/decider"
)

// Respond to a review with a decision.
func Respond(req *admission.Request, d admission.Decision) ctrl.Response {
	resp := ctrl.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Allowed: d.Allowed, Warnings: d.Warnings, AuditAnnotations: decider.Audit(req, d),
	}}
	if !d.Allowed {
		resp.Result = decider.Refusal(d)
		return resp
	}
	resp.Result = &metav1.Status{Code: http.StatusOK}
	if req.Object != nil && req.Subresource == "" {
		resp.Patches = Patches(req, d)
	}
	return resp
}

// Patches for the edits of a decision, in the order of their paths.
func Patches(req *admission.Request, d admission.Decision) []jsonpatch.Operation {
	if d.Unchanged {
		return replaced(req.Object, d.Rest, func(string) bool { return true })
	}
	var out []jsonpatch.Operation
	have := req.Object.GetAnnotations()
	if d.Rest != nil {
		out, have = append(kept(req.Object, d.Rest), owned(req, d.Rest)...), d.Rest.GetAnnotations()
	}
	out = append(out, AnnotationPatches(have, d.Annotations)...)
	if d.ManagementPolicies != nil {
		out = append(out, jsonpatch.NewOperation("add", "/spec/managementPolicies", d.ManagementPolicies))
	}
	for _, pointer := range slices.Sorted(maps.Keys(d.Fields)) {
		out = append(out, jsonpatch.NewOperation("add", pointer, d.Fields[pointer]))
	}
	return out
}

// kept returns the patches that put back what a change passes without (KR-05-62): the fields of the desired
// state that differ, and the external name.
func kept(object, rest *unstructured.Unstructured) []jsonpatch.Operation {
	out := replaced(object, rest, func(field string) bool { return field != "metadata" && field != "status" })
	path := change.Pointer("metadata", "annotations", v1alpha1.AnnotationKeyExternalName)
	was, had := object.GetAnnotations()[v1alpha1.AnnotationKeyExternalName]
	is, has := rest.GetAnnotations()[v1alpha1.AnnotationKeyExternalName]
	switch {
	case has && len(object.GetAnnotations()) == 0:
		out = append(out, jsonpatch.NewOperation("add", "/metadata/annotations", map[string]any{v1alpha1.AnnotationKeyExternalName: is}))
	case has && was != is:
		out = append(out, jsonpatch.NewOperation("add", path, is))
	case had && !has:
		out = append(out, jsonpatch.NewOperation("remove", path, nil))
	}
	return out
}

// replaced returns the patches that replace those top-level fields of an object that differ.
func replaced(object, by *unstructured.Unstructured, field func(string) bool) (out []jsonpatch.Operation) {
	fields := maps.Clone(object.Object)
	maps.Copy(fields, by.Object)
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		if !field(k) || equality.Semantic.DeepEqual(object.Object[k], by.Object[k]) {
			continue
		}
		if v, ok := by.Object[k]; ok {
			out = append(out, jsonpatch.NewOperation("add", change.Pointer(k), v))
		} else {
			out = append(out, jsonpatch.NewOperation("remove", change.Pointer(k), nil))
		}
	}
	return out
}

// AnnotationPatches of an object that has some annotations; a nil value removes.
func AnnotationPatches(have map[string]string, edits map[string]*string) (out []jsonpatch.Operation) {
	keys := slices.Sorted(maps.Keys(edits))
	if len(have) == 0 && slices.ContainsFunc(keys, func(k string) bool { return edits[k] != nil }) {
		out = append(out, jsonpatch.NewOperation("add", "/metadata/annotations", map[string]any{}))
	}
	for _, k := range keys {
		path := change.Pointer("metadata", "annotations", k)
		if v := edits[k]; v != nil {
			out = append(out, jsonpatch.NewOperation("add", path, *v))
		} else if _, ok := have[k]; ok {
			out = append(out, jsonpatch.NewOperation("remove", path, nil))
		}
	}
	return out
}
