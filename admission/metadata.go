package admission

import (
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// KeepMetadata returns the edits of a write to a subresource as status: all annotations of
// Kausality's domain, users' included, the controller reference and the labels of kro are as stored
// (KR-13-16, KR-18-04). Those of built-in kinds store the metadata that they are sent. The request
// has both objects, and is not modified; the Decision has edits alone.
func KeepMetadata(req *Request) Decision {
	d := Decision{Answer: Answer{Allowed: true}}
	incoming, stored := req.Object.GetAnnotations(), req.OldObject.GetAnnotations()
	keep := func(key string, value *string) {
		if d.Annotations == nil {
			d.Annotations = map[string]*string{}
		}
		d.Annotations[key] = value
	}
	for key := range incoming {
		if _, was := stored[key]; !was && v1alpha1.IsKausality(key) {
			keep(key, nil)
		}
	}
	for key, value := range stored {
		if now, is := incoming[key]; v1alpha1.IsKausality(key) && (!is || now != value) {
			keep(key, &value)
		}
	}
	if !parent.SameController(req.OldObject, req.Object) {
		d.Fields = map[string]any{ownersPointer: parent.WithController(req.Object, req.OldObject)}
	}
	if !parent.SameMembership(req.OldObject, req.Object) {
		if d.Fields == nil {
			d.Fields = map[string]any{}
		}
		d.Fields[labelsPointer] = parent.WithMembership(req.Object, req.OldObject)
	}
	return d
}
