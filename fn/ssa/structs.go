package ssa

import (
	"maps"
	"math"

	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxExact is the largest whole number up to which every one is a float64.
const maxExact = 1 << 53

// Object reads a Struct into maps of its own. Whole numbers become int64, as
// the API server's decoder has them: generations, and ids of differences that
// are the same here and in the webhook, depend on it. nil for a nil Struct.
func Object(s *structpb.Struct) map[string]any {
	if s == nil {
		return nil
	}
	out := make(map[string]any, len(s.GetFields()))
	for k, v := range s.GetFields() {
		out[k] = FromValue(v)
	}
	return out
}

// objectWithout reads a Struct like Object, but for one key.
func objectWithout(s *structpb.Struct, key string) map[string]any {
	out := make(map[string]any, len(s.GetFields()))
	for k, v := range s.GetFields() {
		if k != key {
			out[k] = FromValue(v)
		}
	}
	return out
}

// FromValue converts a protobuf value to what encoding/json decodes; nil for none.
func FromValue(v *structpb.Value) any {
	switch k := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		if n := k.NumberValue; n == math.Trunc(n) && math.Abs(n) <= maxExact {
			return int64(n)
		}
		return k.NumberValue
	case *structpb.Value_StringValue:
		return k.StringValue
	case *structpb.Value_BoolValue:
		return k.BoolValue
	case *structpb.Value_StructValue:
		if k.StructValue == nil {
			return map[string]any{}
		}
		return Object(k.StructValue)
	case *structpb.Value_ListValue:
		values := k.ListValue.GetValues()
		out := make([]any, len(values))
		for i, e := range values {
			out[i] = FromValue(e)
		}
		return out
	}
	return nil
}

// ObjectLike reads a Struct like Object, but takes the values that are equal to those of another object from there: most of
// what a pipeline wants is what was observed. Only the map of the first level is its own. nil for a nil Struct.
func ObjectLike(s *structpb.Struct, like map[string]any) map[string]any {
	if s == nil {
		return nil
	}
	out, same := mapLike(s.GetFields(), like)
	if same {
		return maps.Clone(out)
	}
	return out
}

// mapLike converts fields as FromValue does. same is whether the result is like.
func mapLike(fields map[string]*structpb.Value, like map[string]any) (out map[string]any, same bool) {
	for k, v := range fields {
		known, has := like[k]
		value, same := valueLike(v, known)
		if has && same {
			continue // it is filled in where another one differs
		}
		if out == nil {
			out = make(map[string]any, len(fields))
		}
		out[k] = value
	}
	if out == nil && len(fields) == len(like) && like != nil {
		return like, true
	}
	if out == nil {
		out = make(map[string]any, len(fields))
	}
	if len(out) < len(fields) {
		for k := range fields {
			if _, converted := out[k]; !converted {
				out[k] = like[k]
			}
		}
	}
	return out, false
}

// valueLike converts a value as FromValue does. same is whether the result is like.
func valueLike(v *structpb.Value, like any) (out any, same bool) {
	switch k := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		if text, ok := like.(string); ok && text == k.StringValue {
			return like, true
		}
	case *structpb.Value_StructValue:
		if m, ok := like.(map[string]any); ok && k.StructValue != nil {
			return mapLike(k.StructValue.GetFields(), m)
		}
	case *structpb.Value_ListValue:
		if l, ok := like.([]any); ok {
			return listLike(k.ListValue.GetValues(), l, like)
		}
	case *structpb.Value_NumberValue, *structpb.Value_BoolValue, *structpb.Value_NullValue:
		out = FromValue(v)
		return out, out == like
	}
	return FromValue(v), false
}

// listLike converts the values of a list as FromValue does, boxed is like as a value. same is whether the result is that.
func listLike(values []*structpb.Value, like []any, boxed any) (out any, same bool) {
	var list []any
	for i, v := range values {
		var known any
		if i < len(like) {
			known = like[i]
		}
		value, same := valueLike(v, known)
		if list == nil && (!same || i >= len(like)) {
			list = append(make([]any, 0, len(values)), like[:min(i, len(like))]...)
		}
		if list != nil {
			list = append(list, value)
		}
	}
	switch {
	case list != nil:
		return list, false
	case len(values) == len(like):
		return boxed, true
	}
	return append(make([]any, 0, len(values)), like[:len(values)]...), false
}

// ToStruct converts a map to a Struct, the reverse of Object. A value of no JSON type becomes null.
func ToStruct(m map[string]any) *structpb.Struct {
	out := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(m))}
	for k, v := range m {
		out.Fields[k] = ToValue(v)
	}
	return out
}

// StructOf returns the value of fields, which it shares. It allocates once, not three times: a run makes
// thousands of values.
func StructOf(fields map[string]*structpb.Value) *structpb.Value {
	out := &struct {
		value structpb.Value
		kind  structpb.Value_StructValue
		is    structpb.Struct
	}{}
	out.is.Fields, out.kind.StructValue, out.value.Kind = fields, &out.is, &out.kind
	return &out.value
}

// StringOf returns the value of a text, allocated as StructOf does.
func StringOf(text string) *structpb.Value {
	out := &struct {
		value structpb.Value
		kind  structpb.Value_StringValue
	}{}
	out.kind.StringValue, out.value.Kind = text, &out.kind
	return &out.value
}

// ListOf returns the value of a list of values.
func ListOf(values []*structpb.Value) *structpb.Value {
	return structpb.NewListValue(&structpb.ListValue{Values: values})
}

// With returns the fields of a Struct with a value at a path of at least one name;
// nil removes the field. Only the maps on the path are copied, those that do not
// exist are created.
func With(fields map[string]*structpb.Value, value *structpb.Value, path ...string) map[string]*structpb.Value {
	out := Clone(fields)
	if len(path) > 1 {
		value = StructOf(With(out[path[0]].GetStructValue().GetFields(), value, path[1:]...))
	}
	if out[path[0]] = value; value == nil {
		delete(out, path[0])
	}
	return out
}

// ToValue converts what encoding/json decodes to a protobuf value.
func ToValue(v any) *structpb.Value {
	switch t := v.(type) {
	case map[string]any:
		return StructOf(ToStruct(t).GetFields())
	case []any:
		values := make([]*structpb.Value, len(t))
		for i, e := range t {
			values[i] = ToValue(e)
		}
		return ListOf(values)
	case string:
		return StringOf(t)
	case bool:
		return structpb.NewBoolValue(t)
	case int64:
		return structpb.NewNumberValue(float64(t))
	case float64:
		return structpb.NewNumberValue(t)
	}
	return structpb.NewNullValue()
}

// Unstructured returns content as an object; nil where it has no kind or apiVersion,
// so that nothing can be decided about it.
func Unstructured(content map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: content}
	if u.GetKind() == "" || u.GetAPIVersion() == "" {
		return nil
	}
	return u
}

// ObjectWithoutStatus reads a Struct like Object, but for status and
// metadata.managedFields: they are most of a resource, and seldom needed.
func ObjectWithoutStatus(s *structpb.Struct) map[string]any {
	out := make(map[string]any, len(s.GetFields()))
	for k, v := range s.GetFields() {
		switch metadata := v.GetStructValue(); {
		case k == "status":
		case k == "metadata" && metadata != nil:
			out[k] = objectWithout(metadata, "managedFields")
		default:
			out[k] = FromValue(v)
		}
	}
	return out
}

// Child returns the map under a key; nil where the key holds no map.
func Child(m map[string]any, key string) map[string]any {
	out, _ := m[key].(map[string]any)
	return out
}

// Text returns the string under a key; "" where the key holds no string.
func Text(m map[string]any, key string) string {
	out, _ := m[key].(string)
	return out
}

// AnnotationOf returns an annotation of an object by its content; "" where it is not set.
func AnnotationOf(content map[string]any, key string) string {
	return Text(Child(Child(content, "metadata"), "annotations"), key)
}

// Condition returns the condition of an object by its type; nil where it has none.
func Condition(content map[string]any, kind string) map[string]any {
	list, _ := Child(content, "status")["conditions"].([]any)
	for _, e := range list {
		if c, _ := e.(map[string]any); Text(c, "type") == kind {
			return c
		}
	}
	return nil
}
