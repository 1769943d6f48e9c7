package kro

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	krocel "github.com/kubernetes-sigs/kro/pkg/cel"
	"github.com/kubernetes-sigs/kro/pkg/cel/ast"
	"github.com/kubernetes-sigs/kro/pkg/graph/fieldpath"
	"github.com/kubernetes-sigs/kro/pkg/graph/parser"
	"github.com/kubernetes-sigs/kro/pkg/graph/variable"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/verb"
)

// instanceVariable is the variable of expressions that is the instance.
const instanceVariable = "schema"

// maxLine is how many bytes of a line of a graph are kept.
const maxLine = 256

// graph is a ResourceGraphDefinition with its expressions inspected.
type graph struct {
	name     string
	instance schema.GroupVersionKind
	// scalars reports whether a field of the instance has one value.
	scalars map[string]any
	nodes   []*node
	byID    map[string]*node
}

// node is an entry of spec.resources.
type node struct {
	id string
	// at is its place, as in resources[0].
	at   string
	kind schema.GroupVersionKind
	// external: kro reads it and never writes it. managed: it represents an external resource.
	external, managed bool
	// fields of the template with an expression, by path, and constants with a plain value.
	fields    []field
	constants [][]change.Segment
	// include are the expressions that decide whether it is created, and each those of a collection by the name of the iterator.
	include   []field
	each      map[string]field
	iterators []string
}

// field is an expression of a graph.
type field struct {
	// path within the template; empty for expressions outside of it.
	path []change.Segment
	// line of the graph, as in resources[0].template.spec.replicas: ${schema.spec.replicas}.
	line string
	// text: the value is a text around expressions, and never absent. single: it is the value of one field.
	text, single bool
	reads        []read
}

// read is a value that an expression reads: a path below a variable, empty for all of it.
type read struct {
	variable string
	path     []change.Segment
}

// parse returns the graph of a ResourceGraphDefinition. An error is a reason for which kro refuses the graph.
func parse(definition *krov1alpha1.ResourceGraphDefinition) (*graph, error) {
	s := definition.Spec.Schema
	if s == nil || s.Kind == "" || s.APIVersion == "" {
		return nil, errors.New("spec.schema: kind and apiVersion are required")
	}
	g := &graph{name: definition.Name, byID: map[string]*node{}, instance: schema.GroupVersionKind{Group: s.Group, Version: s.APIVersion, Kind: s.Kind}}
	if i := strings.LastIndex(s.APIVersion, "/"); i >= 0 { // the form of kro's first releases
		g.instance.Group, g.instance.Version = s.APIVersion[:i], s.APIVersion[i+1:]
	}
	if g.instance.Group == "" {
		g.instance.Group = krov1alpha1.GroupVersion.Group
	}
	if len(s.Spec.Raw) > 0 {
		if err := json.Unmarshal(s.Spec.Raw, &g.scalars); err != nil {
			return nil, fmt.Errorf("spec.schema.spec: %w", err)
		}
	}
	for i, r := range definition.Spec.Resources {
		if err := g.add(i, r); err != nil {
			return nil, fmt.Errorf("spec.%w", err)
		}
	}
	env, err := krocel.DefaultEnvironment()
	if err != nil {
		return nil, fmt.Errorf("cannot read expressions: %w", err)
	}
	shared := inspector{ast.NewInspectorWithEnv(env, g.variables()), g.variables()}
	for i, r := range definition.Spec.Resources {
		in := shared
		if names := iterators(r.ForEach); len(names) > 0 {
			variables := append(g.variables(), names...)
			in = inspector{ast.NewInspectorWithEnv(env, variables), variables}
		}
		if err := g.nodes[i].read(in, r); err != nil {
			return nil, fmt.Errorf("spec.%w", err)
		}
	}
	return g, g.acyclic()
}

// checkIterators returns an error for iterators that kro refuses: those that read another one, and those with the name of a resource.
func (g *graph) checkIterators(n *node) error {
	for _, name := range n.iterators {
		if name == instanceVariable || g.byID[name] != nil {
			return fmt.Errorf("spec.%s.forEach: the name %q is already used", n.at, name)
		}
		for _, r := range n.each[name].reads {
			if _, iterator := n.each[r.variable]; iterator {
				return fmt.Errorf("spec.%s.forEach: iterator %q reads iterator %q", n.at, name, r.variable)
			}
		}
	}
	return nil
}

// add the node of a resource, which is yet to be read.
func (g *graph) add(i int, r *krov1alpha1.Resource) error {
	at := fmt.Sprintf("resources[%d]", i)
	switch {
	case r == nil || !validID.MatchString(r.ID):
		return fmt.Errorf("%s.id: it must be letters and digits, the first one in lower case", at)
	case g.byID[r.ID] != nil || r.ID == instanceVariable:
		return fmt.Errorf("%s.id: %q is already used", at, r.ID)
	}
	n := &node{id: r.ID, at: at}
	g.nodes, g.byID[n.id] = append(g.nodes, n), n
	return nil
}

// variables of all expressions: the instance and the resources.
func (g *graph) variables() []string {
	out := []string{instanceVariable}
	for _, n := range g.nodes {
		out = append(out, n.id)
	}
	return out
}

// iterators of a collection, in the order of the graph.
func iterators(dimensions []krov1alpha1.ForEachDimension) []string {
	var out []string
	for _, d := range dimensions {
		out = append(out, slices.Sorted(maps.Keys(d))...)
	}
	return out
}

var validID = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)

// read an entry of spec.resources.
func (n *node) read(in inspector, r *krov1alpha1.Resource) (err error) {
	if n.include, err = in.wrapped(n.at+".includeWhen", r.IncludeWhen); err != nil {
		return err
	}
	n.iterators = iterators(r.ForEach)
	if n.each, err = in.dimensions(n.at+".forEach", r.ForEach); err != nil {
		return err
	}
	template, at := map[string]any{}, n.at+".template"
	switch {
	case (r.ExternalRef == nil) == (len(r.Template.Raw) == 0):
		return fmt.Errorf("%s: it must have one of template and externalRef", n.at)
	case r.ExternalRef != nil:
		n.external, at = true, n.at+".externalRef"
		raw, err := json.Marshal(r.ExternalRef)
		if err == nil {
			err = json.Unmarshal(raw, &template)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	default:
		if err := json.Unmarshal(r.Template.Raw, &template); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return n.template(in, at, template)
}

// template reads the template of a resource, or what identifies an external one.
func (n *node) template(in inspector, at string, template map[string]any) error {
	version, _ := template["apiVersion"].(string)
	kind, _ := template["kind"].(string)
	gv, err := schema.ParseGroupVersion(version)
	if err != nil || version == "" || kind == "" || strings.Contains(version+kind, "${") {
		return fmt.Errorf("%s: apiVersion and kind must be those of a kind", at)
	}
	n.kind = gv.WithKind(kind)
	_, forProvider, _ := unstructured.NestedFieldNoCopy(template, "spec", "forProvider")
	n.managed = forProvider || verb.Of(n.kind.GroupKind()) != verb.Crossplane
	found, plain, err := parser.ParseSchemalessResource(template)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	for _, text := range plain {
		path, err := segments(text)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		n.constants = append(n.constants, path)
	}
	slices.SortFunc(found, func(a, b variable.FieldDescriptor) int { return strings.Compare(a.Path, b.Path) })
	for _, d := range found {
		text := d.Expression.OriginalTemplate
		if text == "" {
			text = "${" + d.Expression.Original + "}"
		}
		f, err := in.field(at+"."+d.Path, text, d.Expression.Original)
		if err != nil {
			return err
		}
		if f.path, err = segments(d.Path); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		f.text = strings.HasPrefix(authorship.Shown(text), "…") || strings.HasSuffix(authorship.Shown(text), "…") || strings.Contains(authorship.Shown(text), "}…${")
		n.fields = append(n.fields, f)
	}
	return nil
}

// segments reads a path as kro writes it: its keys in quotes have periods.
func segments(path string) ([]change.Segment, error) {
	parsed, err := fieldpath.Parse(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the path %s: %w", path, err)
	}
	out := make([]change.Segment, 0, len(parsed))
	for _, s := range parsed {
		if s.Index >= 0 {
			out = append(out, change.Segment{Index: s.Index, Item: true})
			continue
		}
		out = append(out, change.Segment{Key: s.Name})
	}
	return out, nil
}

// line returns a place of a graph with its expressions.
func line(at, text string) string {
	out := at + ": " + authorship.Shown(text)
	if len(out) > maxLine {
		out = strings.ToValidUTF8(out[:maxLine], "") + "…"
	}
	return out
}

// expressions returns all that the node has, those outside of its template first.
func (n *node) expressions() []field {
	out := slices.Clone(n.include)
	for _, name := range n.iterators {
		out = append(out, n.each[name])
	}
	return append(out, n.fields...)
}

// acyclic returns an error for iterators that kro refuses, and for a cycle of resources, with one of them.
func (g *graph) acyclic() error {
	const visiting, done = 1, 2
	state := map[string]int{}
	var visit func(n *node, path []string) error
	visit = func(n *node, path []string) error {
		path = append(path, n.id)
		switch state[n.id] {
		case done:
			return nil
		case visiting:
			return fmt.Errorf("spec.resources: a cycle: %s", strings.Join(path[slices.Index(path, n.id):], " reads "))
		}
		state[n.id] = visiting
		for _, f := range n.expressions() {
			for _, r := range f.reads {
				next := g.byID[r.variable]
				if _, iterator := n.each[r.variable]; iterator || next == nil {
					continue
				}
				if err := visit(next, path); err != nil {
					return err
				}
			}
		}
		state[n.id] = done
		return nil
	}
	for _, n := range g.nodes {
		if err := g.checkIterators(n); err != nil {
			return err
		}
	}
	for _, n := range g.nodes {
		if err := visit(n, nil); err != nil {
			return err
		}
	}
	return nil
}

// scalar reports whether a field of the instance has one value that is never absent where it is read, by the schema of the graph.
func (g *graph) scalar(path []change.Segment) bool {
	if len(path) < 2 || path[0].Key != "spec" {
		return false
	}
	var at any = g.scalars
	for _, s := range path[1:] {
		m, _ := at.(map[string]any)
		at = m[s.Key]
	}
	text, _ := at.(string)
	kind, _, _ := strings.Cut(text, "|")
	return slices.Contains([]string{"string", "integer", "boolean", "float"}, strings.TrimSpace(kind))
}
