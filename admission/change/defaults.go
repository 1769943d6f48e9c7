package change

import "reflect"

// Defaults of a kind's schema. nil has none. It is not modified once it is read.
type Defaults struct {
	// value is the default of this field; has is false where it has no default.
	value any
	has   bool
	// fields by name; nil where no field has defaults at or below it.
	fields map[string]*Defaults
	// items of a list, or values of a map with arbitrary keys; nil where they have no defaults.
	items *Defaults
}

// SchemaDefaults returns the defaults of an openAPIV3Schema of a CRD's version; nil where it has none. The schema
// itself is not kept, except for the values.
func SchemaDefaults(schema map[string]any) *Defaults { return readDefaults(schema, maxSchemaDepth) }

// readDefaults reads the defaults of a part of a schema. It returns nil where the part has no defaults, so that most
// of a large schema is not kept.
func readDefaults(schema map[string]any, depth int) *Defaults {
	if schema == nil || depth == 0 {
		return nil
	}
	d := &Defaults{}
	d.value, d.has = schema["default"]
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		inner, _ := p.(map[string]any)
		if below := readDefaults(inner, depth-1); below != nil {
			if d.fields == nil {
				d.fields = map[string]*Defaults{}
			}
			d.fields[name] = below
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[key].(map[string]any); ok {
			d.items = readDefaults(inner, depth-1)
		}
	}
	if !d.has && d.fields == nil && d.items == nil {
		return nil
	}
	return d
}

// at returns the defaults at a path below; nil where that has no defaults.
func (d *Defaults) at(path []Segment) *Defaults {
	for _, s := range path {
		d = d.below(s.Key, s.Item)
	}
	return d
}

func (d *Defaults) below(key string, item bool) *Defaults {
	if d == nil {
		return nil
	}
	if f, ok := d.fields[key]; ok && !item {
		return f
	}
	return d.items
}

// Fill reports whether a value at a path has no content of its own: it is the zero value of its type, the default, or
// a map of only such values. A client with types that have required fields adds such values to an object, and the API
// server adds defaults to them.
func (d *Defaults) Fill(path []Segment, value any) bool { return d.at(path).fills(value) }

func (d *Defaults) fills(value any) bool {
	if d != nil && d.has && reflect.DeepEqual(d.value, value) {
		return true
	}
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		for key, inner := range v {
			if !d.below(key, false).fills(inner) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return reflect.ValueOf(value).IsZero()
}
