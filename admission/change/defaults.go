package change

import "reflect"

// Defaults of a kind's schema. nil has none. It is not modified once it is read.
type Defaults struct{ *schemaPart[fieldDefault] }

// fieldDefault is the default of a field; has is false where it has no default.
type fieldDefault struct {
	value any
	has   bool
}

// SchemaDefaults returns the defaults of an openAPIV3Schema of a CRD's version; nil where it has none. The schema
// itself is not kept, except for the values.
func SchemaDefaults(schema map[string]any) *Defaults {
	p := readSchema(schema, maxSchemaDepth, func(schema map[string]any) (d fieldDefault, has bool) {
		d.value, d.has = schema["default"]
		return d, d.has
	})
	if p == nil {
		return nil
	}
	return &Defaults{p}
}

// Fill reports whether a value at a path has no content of its own: it is the zero value of its type, the default, or
// a map of only such values. A client with types that have required fields adds such values to an object, and the API
// server adds defaults to them.
func (d *Defaults) Fill(path []Segment, value any) bool {
	if d == nil {
		return fills(nil, value)
	}
	return fills(d.at(path...), value)
}

func fills(d *schemaPart[fieldDefault], value any) bool {
	if d != nil && d.own.has && reflect.DeepEqual(d.own.value, value) {
		return true
	}
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		for key, inner := range v {
			if !fills(d.at(Segment{Key: key}), inner) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return reflect.ValueOf(value).IsZero()
}
