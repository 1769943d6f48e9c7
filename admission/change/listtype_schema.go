package change

// schemaNode is a part of a schema with lists of a ListType at or below it.
type schemaNode struct {
	// fields by name; nil where no field has such lists.
	fields map[string]*schemaNode
	// items of a list, or values of a map with arbitrary keys; nil where they have no such lists.
	items *schemaNode
	list  ListType
}

// maxSchemaDepth is how deep schemas are read; no real schema is as deep.
const maxSchemaDepth = 64

// SchemaLists returns the lists of a version of a CRD by x-kubernetes-list-type and x-kubernetes-list-map-keys of its
// openAPIV3Schema; nil where no list has keys and none is a set. The schema itself is not kept.
func SchemaLists(schema map[string]any) Lists {
	n := readSchema(schema, maxSchemaDepth)
	if n == nil {
		return nil
	}
	return n
}

// readSchema returns the lists of a schema; nil where it has none, so that most of a
// large schema is not kept.
func readSchema(schema map[string]any, depth int) *schemaNode {
	if schema == nil || depth == 0 {
		return nil
	}
	n := &schemaNode{}
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		inner, _ := p.(map[string]any)
		if below := readSchema(inner, depth-1); below != nil {
			if n.fields == nil {
				n.fields = map[string]*schemaNode{}
			}
			n.fields[name] = below
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[key].(map[string]any); ok {
			n.items = readSchema(inner, depth-1)
		}
	}
	switch schema["x-kubernetes-list-type"] {
	case "set":
		n.list.Set = true
	case "map":
		keys, _ := schema["x-kubernetes-list-map-keys"].([]any)
		for _, k := range keys {
			if text, ok := k.(string); ok {
				n.list.Keys = append(n.list.Keys, text)
			}
		}
	}
	if n.fields == nil && n.items == nil && !n.list.Set && len(n.list.Keys) == 0 {
		return nil
	}
	return n
}

// ListType returns the ListType of the list at a path.
func (n *schemaNode) ListType(path []Segment) ListType {
	for _, s := range path {
		if below, ok := n.fields[s.Key]; ok && !s.Item {
			n = below
		} else {
			n = n.items
		}
		if n == nil {
			return ListType{}
		}
	}
	return n.list
}
