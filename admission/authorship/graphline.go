package authorship

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/change"
)

// LabelNode is the label by which kro names the resource of a graph that an object is of (v0.9.3, pkg/metadata/labels.go).
const LabelNode = "kro.run/node-id"

// maxLineText is how many bytes of an expression GraphLine returns.
const maxLineText = 200

// GraphLine describes where a graph has what decides about a field of an object, or about the object for the empty path, as in
// resources[0].template.spec.replicas: ${schema.spec.replicas}. Of a constant it returns the place alone, since it may be secret, as
// texts in expressions may be. node is the value of LabelNode. It is "" for an object of no graph.
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
		return existenceLine(at, resource)
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
			return at + ": " + Shown(v)
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

// existenceLine names what decides whether an object of a resource exists.
func existenceLine(at string, resource map[string]any) string {
	var lines []string
	include, _ := resource["includeWhen"].([]any)
	for i, v := range include {
		lines = append(lines, fmt.Sprintf("%s.includeWhen[%d]: %s", at, i, Shown(fmt.Sprint(v))))
	}
	each, _ := resource["forEach"].([]any)
	for i, v := range each {
		dimension, _ := v.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(dimension)) {
			lines = append(lines, fmt.Sprintf("%s.forEach[%d].%s: %s", at, i, name, Shown(fmt.Sprint(dimension[name]))))
		}
	}
	if len(lines) == 0 {
		return at + ", without includeWhen and forEach"
	}
	return strings.Join(lines, ", ")
}

// Shown returns what is shown of a field of a graph, on one line: its expressions, with an ellipsis for the text around them and for
// literals in them, which may be secret.
func Shown(text string) string {
	var out strings.Builder
	for text != "" {
		i := strings.Index(text, "${")
		if i != 0 {
			out.WriteString("…")
		}
		if i < 0 {
			break
		}
		text = shownExpression(&out, text[i:])
	}
	line := strings.Join(strings.Fields(out.String()), " ")
	if len(line) > maxLineText {
		line = strings.ToValidUTF8(line[:maxLineText], "") + "…"
	}
	return line
}

// shownExpression writes the expression at the beginning of a text without its literals, and returns what follows it.
func shownExpression(out *strings.Builder, text string) (rest string) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"', '\'', '`':
			out.WriteString(`"…"`)
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			continue
		case '{':
			depth++
		case '}':
			depth--
		}
		out.WriteByte(text[i])
		if text[i] == '}' && depth == 0 {
			return text[i+1:]
		}
	}
	return ""
}
