package change

import (
	"strings"
)

// Schema holds the fields that objects of a kind can have. A nil Schema is not known, and any field is possible. It
// is not modified and safe for concurrent use.
type Schema struct {
	root map[string]any
	// components that $ref names, without the prefix; nil for the schema of a CRD.
	components map[string]any
}

// refPrefix of a reference to a component.
const refPrefix = "#/components/schemas/"

// SchemaOf returns the Schema for the openAPIV3Schema of a version of a CRD: the API server drops fields that it does
// not name. It returns nil for nil.
func SchemaOf(openAPIV3Schema map[string]any) *Schema {
	if openAPIV3Schema == nil {
		return nil
	}
	return &Schema{root: openAPIV3Schema}
}

// SchemaOfComponent returns the schema of a built-in kind: one of the components of an OpenAPI v3 document. It
// returns nil where the document has no such component.
func SchemaOfComponent(components map[string]any, name string) *Schema {
	root, _ := components[name].(map[string]any)
	if root == nil {
		return nil
	}
	return &Schema{root: root, components: components}
}

// Lacks returns the first field of a path that no object of the kind has, as a path; "" where
// objects can have all of them. A key "*" is any index or key.
func (s *Schema) Lacks(path []Segment) string {
	if s == nil || len(path) == 0 || path[0].Item {
		return ""
	}
	switch path[0].Key { // CRDs do not repeat what every object has
	case "apiVersion", "kind", "metadata":
		return ""
	}
	if n := s.missing(s.root, path, maxSchemaDepth); n > 0 {
		return Text(path[:len(path)-n+1])
	}
	return ""
}

// LacksPattern returns the same as Lacks, for a pattern.
func (s *Schema) LacksPattern(p Pattern) string {
	path := make([]Segment, 0, len(p.segments))
	for _, at := range p.segments {
		if at.any {
			at.Segment = Segment{Key: Any}
		}
		path = append(path, at.Segment)
	}
	return s.Lacks(path)
}

// missing returns the number of segments from the first one on that a value of a schema cannot have; 0 where it can
// have all of them.
func (s *Schema) missing(node map[string]any, path []Segment, depth int) int {
	node = s.resolve(node)
	if len(path) == 0 || node == nil || depth == 0 || node["x-kubernetes-preserve-unknown-fields"] == true {
		return 0
	}
	var next []map[string]any
	at := path[0]
	if items, ok := node["items"].(map[string]any); ok && (at.Item || at.Key == Any) {
		next = append(next, items)
	}
	if !at.Item {
		next = append(next, s.fields(node, at.Key)...)
	}
	if len(next) == 0 {
		if s.open(node) {
			return 0
		}
		return len(path)
	}
	fewest := len(path)
	for _, n := range next {
		fewest = min(fewest, s.missing(n, path[1:], depth-1))
	}
	return fewest
}

// fields returns the schemas of the fields with a key, or of all fields for any key.
func (s *Schema) fields(node map[string]any, key string) []map[string]any {
	var out []map[string]any
	properties, _ := node["properties"].(map[string]any)
	for name, p := range properties {
		if inner, ok := p.(map[string]any); ok && (key == Any || key == name) {
			out = append(out, inner)
		}
	}
	if len(out) > 0 && key != Any {
		return out
	}
	switch more := node["additionalProperties"].(type) {
	case map[string]any:
		out = append(out, more)
	case bool:
		if more {
			out = append(out, nil)
		}
	}
	return out
}

// open reports whether values may have fields that the schema does not name: those of built-in kinds, as a
// RawExtension, and parts without a type.
func (s *Schema) open(node map[string]any) bool {
	_, typed := node["type"]
	_, properties := node["properties"]
	return !typed && !properties || node["type"] == "object" && !properties && s.components != nil ||
		node["x-kubernetes-embedded-resource"] == true
}

// resolve returns the schema that a reference leads to. Documents have a reference alone, or as the only one of
// allOf.
func (s *Schema) resolve(node map[string]any) map[string]any {
	for range maxSchemaDepth {
		ref, _ := node["$ref"].(string)
		if all, _ := node["allOf"].([]any); ref == "" && len(all) == 1 {
			only, _ := all[0].(map[string]any)
			ref, _ = only["$ref"].(string)
		}
		if ref == "" {
			return node
		}
		node, _ = s.components[strings.TrimPrefix(ref, refPrefix)].(map[string]any)
	}
	return node
}
