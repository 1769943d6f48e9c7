package lists

import (
	"github.com/kausality-io/function-kausality/admission/change"
)

// node of a schema that has lists of ours at or below it.
type node struct {
	fields map[string]*node
	// items of a list, or values of a map whose keys are free.
	items *node
	list  change.ListType
}

// maxDepth of schemas that are looked into; nothing real is as deep.
const maxDepth = 64

// OfSchema knows the lists of a CRD's version by its openAPIV3Schema; nil where
// none has keys and none is a set. Of the schema only that is kept.
func OfSchema(schema map[string]any) change.Lists {
	n := read(schema, maxDepth)
	if n == nil {
		return nil
	}
	return n
}

func read(schema map[string]any, depth int) *node {
	if schema == nil || depth == 0 {
		return nil
	}
	n := &node{}
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		inner, _ := p.(map[string]any)
		if below := read(inner, depth-1); below != nil {
			if n.fields == nil {
				n.fields = map[string]*node{}
			}
			n.fields[name] = below
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[key].(map[string]any); ok {
			n.items = read(inner, depth-1)
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

// ListType of the list at a path.
func (n *node) ListType(path []change.Segment) change.ListType {
	for _, s := range path {
		if below, ok := n.fields[s.Key]; ok && !s.Item {
			n = below
		} else {
			n = n.items
		}
		if n == nil {
			return change.ListType{}
		}
	}
	return n.list
}
