package kro

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	"github.com/kubernetes-sigs/kro/pkg/cel/ast"
	"github.com/kubernetes-sigs/kro/pkg/graph/parser"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/kausality-io/function-kausality/admission/change"
)

// inspector of expressions, with the variables that they may read.
type inspector struct {
	*ast.Inspector
	variables []string
}

func (in inspector) has(variable string) bool { return slices.Contains(in.variables, variable) }

// hidden finds the variables of comprehensions, such as map(x, …). One with the name of a resource hides it also where it is read.
var hidden = regexp.MustCompile(`\(\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*,`)

// pathOf returns the path of what an expression reads. The inspector takes what is behind a call for a part of it: it ends where the
// expression, given without white space, has it no more.
func pathOf(d ast.ResourceDependency, bare string) []change.Segment {
	path := d.Path
	for path != d.ID && !strings.Contains(bare, path) {
		path = path[:max(strings.LastIndexByte(path, '.'), len(d.ID))]
	}
	out := change.SplitPath(strings.TrimPrefix(strings.TrimPrefix(path, d.ID), "."))
	for i := range out {
		if name, ok := apiservercel.Unescape(out[i].Key); ok {
			out[i].Key = name
		}
	}
	return out
}

// wrapped reads a list of expressions, each of them in ${…}.
func (in inspector) wrapped(at string, texts []string) ([]field, error) {
	var out []field
	for i, text := range texts {
		one := fmt.Sprintf("%s[%d]", at, i)
		unwrapped, err := parser.UnwrapExpressions([]string{text})
		if err != nil || len(unwrapped) != 1 {
			return nil, fmt.Errorf("%s: it must be an expression in ${…}", one)
		}
		f, err := in.field(one, text, unwrapped[0].Original)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// dimensions reads the expressions of a collection, by the name of the iterator.
func (in inspector) dimensions(at string, dimensions []krov1alpha1.ForEachDimension) (map[string]field, error) {
	out := map[string]field{}
	for i, d := range dimensions {
		for name, text := range d {
			fs, err := in.wrapped(fmt.Sprintf("%s[%d].%s", at, i, name), []string{text})
			if err != nil {
				return nil, err
			}
			out[name] = fs[0]
		}
	}
	return out, nil
}

// optional are other forms of a field than .name, of which the inspector reads what is before them alone: .?name, ["name"] and [?"name"].
var optional = regexp.MustCompile(`\.\?([a-zA-Z_])|\b\[\??["']([a-zA-Z_][a-zA-Z0-9_]*)["']\]`)

// field returns what an expression reads. text is how the graph has it.
func (in inspector) field(at, text, expression string) (field, error) {
	found, err := in.Inspect(expression)
	if err != nil {
		return field{}, fmt.Errorf("%s: %w", at, err)
	}
	if len(found.UnknownResources) > 0 {
		return field{}, fmt.Errorf("%s: the graph has no resource %q", at, found.UnknownResources[0].ID)
	}
	plain := optional.ReplaceAllString(expression, ".$1$2")
	if plain != expression {
		if exact, err := in.Inspect(plain); err == nil && len(exact.UnknownResources) == 0 {
			found = exact
		}
	}
	f := field{line: line(at, text)}
	bare := strings.Join(strings.Fields(expression), "") + strings.Join(strings.Fields(plain), "")
	for _, d := range found.ResourceDependencies {
		f.reads = append(f.reads, read{d.ID, pathOf(d, bare)})
	}
	for _, m := range hidden.FindAllStringSubmatch(expression, -1) {
		if in.has(m[1]) { // all of what the variable hides
			f.reads = append(f.reads, read{variable: m[1]})
		}
	}
	f.single = len(found.ResourceDependencies) == 1 && found.ResourceDependencies[0].Path == strings.TrimSpace(expression)
	return f, nil
}
