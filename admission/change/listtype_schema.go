package change

// maxSchemaDepth is how deep schemas are read; no real schema is as deep.
const maxSchemaDepth = 64

// schemaPart is what is kept of a part of a schema that has something to keep at or below it.
type schemaPart[T any] struct {
	// fields by name; nil where no field has something to keep.
	fields map[string]*schemaPart[T]
	// items of a list, or values of a map with arbitrary keys; nil where they have nothing to keep.
	items *schemaPart[T]
	own   T
}

// readSchema reads a part of a schema. own returns what is kept of the part itself, and whether there is something. It
// returns nil where nothing is kept, so that most of a large schema is not.
func readSchema[T any](schema map[string]any, depth int, own func(schema map[string]any) (kept T, has bool)) *schemaPart[T] {
	if schema == nil || depth == 0 {
		return nil
	}
	p := &schemaPart[T]{}
	var has bool
	p.own, has = own(schema)
	properties, _ := schema["properties"].(map[string]any)
	for name, field := range properties {
		inner, _ := field.(map[string]any)
		if below := readSchema(inner, depth-1, own); below != nil {
			if p.fields == nil {
				p.fields = map[string]*schemaPart[T]{}
			}
			p.fields[name] = below
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[key].(map[string]any); ok {
			p.items = readSchema(inner, depth-1, own)
		}
	}
	if !has && p.fields == nil && p.items == nil {
		return nil
	}
	return p
}

// at returns the part at a path below; nil where nothing is kept of it.
func (p *schemaPart[T]) at(path ...Segment) *schemaPart[T] {
	for _, s := range path {
		if p == nil {
			return nil
		}
		if f, ok := p.fields[s.Key]; ok && !s.Item {
			p = f
		} else {
			p = p.items
		}
	}
	return p
}

// schemaLists are the lists of a schema with keys, and the sets.
type schemaLists struct{ *schemaPart[ListType] }

// SchemaLists returns the lists of a version of a CRD by x-kubernetes-list-type and x-kubernetes-list-map-keys of its
// openAPIV3Schema; nil where no list has keys and none is a set. The schema itself is not kept.
func SchemaLists(schema map[string]any) Lists {
	p := readSchema(schema, maxSchemaDepth, listTypeOf)
	if p == nil {
		return nil
	}
	return schemaLists{p}
}

func listTypeOf(schema map[string]any) (t ListType, has bool) {
	switch schema["x-kubernetes-list-type"] {
	case "set":
		t.Set = true
	case "map":
		keys, _ := schema["x-kubernetes-list-map-keys"].([]any)
		for _, k := range keys {
			if text, ok := k.(string); ok {
				t.Keys = append(t.Keys, text)
			}
		}
	}
	return t, t.Set || len(t.Keys) > 0
}

// ListType returns the ListType of the list at a path.
func (l schemaLists) ListType(path []Segment) ListType {
	if p := l.at(path...); p != nil {
		return p.own
	}
	return ListType{}
}
