package ssa

import (
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Restrict restricts an observed resource to what the pipeline composed before, so that applying it
// changes nothing (KR-09-04). Where managedFields do not show that, the paths of shape are used, which
// is what the pipeline wants now; a nil shape is all of the desired state. The result has apiVersion,
// kind and, where there are any, labels and annotations, without those of Kausality. Its top level may be
// modified, all below is shared with observed.
func Restrict(observed *structpb.Struct, shape map[string]any, owned *Ownership) *structpb.Struct {
	is := observed.GetFields()
	out := map[string]*structpb.Value{"apiVersion": is["apiVersion"], "kind": is["kind"]}
	for k, v := range is {
		switch k {
		case "apiVersion", "kind", "metadata", "status":
			continue
		}
		switch {
		case owned.composed != nil:
			set := owned.composed.below(fieldKey(k))
			if set == nil && !owned.composed.holds(fieldKey(k)) {
				continue
			}
			out[k] = extract(v, set)
		case shape == nil:
			out[k] = withoutMachinery(k, v)
		default:
			if w, ok := shape[k]; ok {
				out[k] = like(v, w)
			}
		}
	}
	if meta := restrictMetadata(is["metadata"].GetStructValue(), Child(shape, "metadata"), owned); len(meta) > 0 {
		out["metadata"] = StructOf(meta)
	}
	return &structpb.Struct{Fields: out}
}

// crossplanes are the keys of labels and annotations that Crossplane adds to
// what the pipeline wants.
var crossplanes = map[string]bool{
	"crossplane.io/composite": true, "crossplane.io/claim-name": true, "crossplane.io/claim-namespace": true,
	v1alpha1.AnnotationKeyCompositionResourceName: true,
}

// restrictMetadata restricts metadata as Restrict does; nil where nothing is left of it.
func restrictMetadata(observed *structpb.Struct, shape map[string]any, owned *Ownership) map[string]*structpb.Value {
	var out map[string]*structpb.Value
	metadata := owned.composed.below(fieldKey("metadata"))
	for _, name := range []string{"labels", "annotations"} {
		mine, like := metadata.below(fieldKey(name)), Child(shape, name)
		var kept map[string]*structpb.Value
		for k, v := range observed.GetFields()[name].GetStructValue().GetFields() {
			_, wanted := like[k]
			if owned.composed != nil {
				wanted = mine.holds(fieldKey(k))
			}
			if wanted && !crossplanes[k] && (name == "labels" || IsHonoured(k)) {
				kept = with(kept, k, v)
			}
		}
		if kept != nil {
			out = with(out, name, StructOf(kept))
		}
	}
	return out
}

// with adds to a map, nil for none yet.
func with(m map[string]*structpb.Value, key string, v *structpb.Value) map[string]*structpb.Value {
	if m == nil {
		m = map[string]*structpb.Value{}
	}
	m[key] = v
	return m
}

// extract returns the part of a value that is in a set; a nil set is the value as a whole.
func extract(v *structpb.Value, set fieldSet) *structpb.Value {
	if set == nil {
		return v
	}
	switch t := v.GetKind().(type) {
	case *structpb.Value_StructValue:
		is := t.StructValue.GetFields()
		out := make(map[string]*structpb.Value, min(len(is), len(set)))
		for key, name := range set.fields() {
			if e, ok := is[name]; ok {
				out[name] = extract(e, set.below(key))
			}
		}
		return StructOf(out)
	case *structpb.Value_ListValue:
		return extractItems(v, set)
	}
	return v
}

// extractItems returns the part of a list that is in a set, as extract does; an atomic list is kept
// as a whole.
func extractItems(list *structpb.Value, set fieldSet) *structpb.Value {
	items := set.items()
	t := listTypeOf(items)
	if t.atomic() {
		return list
	}
	var out []*structpb.Value
	for _, e := range list.GetListValue().GetValues() {
		if key, ok := t.find(items, FromValue(e)); ok {
			out = append(out, extract(e, set.below(key)))
		}
	}
	return structpb.NewListValue(&structpb.ListValue{Values: out})
}

// like restricts a value to the paths of another one; a list is kept as a whole.
func like(v *structpb.Value, shape any) *structpb.Value {
	m, ok := v.GetKind().(*structpb.Value_StructValue)
	s, sok := shape.(map[string]any)
	if !ok || !sok || len(s) == 0 {
		return v
	}
	out := make(map[string]*structpb.Value, len(s))
	for k, w := range s {
		if e, ok := m.StructValue.GetFields()[k]; ok {
			out[k] = like(e, w)
		}
	}
	return StructOf(out)
}

// withoutMachinery leaves out of a nested composite's spec what Crossplane
// writes there.
func withoutMachinery(key string, v *structpb.Value) *structpb.Value {
	spec := v.GetStructValue()
	if key != "spec" || spec == nil {
		return v
	}
	_, modern := spec.GetFields()["crossplane"]
	machinery := parent.Machinery(RoleOf(Object(spec)), modern)
	if machinery == nil {
		return v
	}
	out := make(map[string]*structpb.Value, len(spec.GetFields()))
	for k, e := range spec.GetFields() {
		if !machinery[k] {
			out[k] = e
		}
	}
	return StructOf(out)
}

// RoleOf returns the role of an object in Crossplane by its spec, the one thing a function sees
// (KR-09-14).
func RoleOf(spec map[string]any) parent.Role {
	if _, ok := spec["managementPolicies"].([]any); ok {
		return parent.RoleManaged
	}
	if _, ok := spec["crossplane"].(map[string]any); ok {
		return parent.RoleComposite
	}
	if _, ok := spec["resourceRefs"].([]any); ok {
		return parent.RoleComposite
	}
	return parent.RoleNone
}
