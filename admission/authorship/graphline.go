package authorship

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/change"
)

// LabelNode is the label by which kro names the resource of a graph that an object is of (v0.9.3, pkg/metadata/labels.go).
const LabelNode = "kro.run/node-id"

// maxLineText is how many bytes of an expression GraphLine returns.
const maxLineText = 200

// GraphLine describes where a graph has what decides about a field of an object, or about the object for the empty path, as in
// resources[0].template.spec.replicas: ${schema.spec.replicas}. Of a constant it returns the place alone, since it may be secret. node is
// the value of LabelNode. It is "" for an object of no graph.
func GraphLine(graph map[string]any, node, path string) string {
	if node == "" {
		return ""
	}
	spec, _ := graph["spec"].(map[string]any)
	resources, _ := spec["resources"].([]any)
	i := slices.IndexFunc(resources, func(r any) bool {
		m, _ := r.(map[string]any)
		return m["id"] == node
	})
	if i < 0 {
		return "it has no resource " + node
	}
	resource, _ := resources[i].(map[string]any)
	at := fmt.Sprintf("resources[%d]", i)
	if path == "" {
		var lines []string
		for _, field := range []string{"includeWhen", "forEach"} {
			if v, has := resource[field]; has {
				lines = append(lines, at+"."+field+": "+expression(annotation.MustMarshal(v)))
			}
		}
		if len(lines) == 0 {
			return at + ", without includeWhen and forEach"
		}
		return strings.Join(lines, ", ")
	}
	return templateLine(at+".template", resource["template"], change.SplitPath(path))
}

// templateLine goes down a template for as long as it has the path.
func templateLine(at string, value any, path []change.Segment) string {
	n := 0
	for ; n < len(path); n++ {
		if text, leaf := value.(string); leaf && strings.Contains(text, "${") { // an expression for all that is below
			break
		}
		below, has := step(value, path[n])
		if !has {
			return within(at, path[:n]) + " has no " + change.Text(path[n:])
		}
		value = below
	}
	at = within(at, path[:n])
	switch v := value.(type) {
	case map[string]any, []any:
		return at
	case string:
		if strings.Contains(v, "${") {
			return at + ": " + expression(v)
		}
	}
	return at + " (a constant)"
}

// within returns a place within another one.
func within(at string, path []change.Segment) string {
	if len(path) == 0 {
		return at
	}
	return at + "." + change.Text(path)
}

// step returns the value of one segment of a path.
func step(value any, s change.Segment) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		below, has := v[s.Key]
		return below, has && !s.Item
	case []any:
		if s.Item && s.Index < len(v) {
			return v[s.Index], true
		}
	}
	return nil, false
}

// expression on one line.
func expression(text string) string {
	out := strings.Join(strings.Fields(text), " ")
	if len(out) > maxLineText {
		out = strings.ToValidUTF8(out[:maxLineText], "") + "…"
	}
	return out
}
