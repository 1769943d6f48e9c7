package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// types of a package by name.
type types map[string]*typeDoc

type typeDoc struct {
	name, doc string
	expr      ast.Expr
	// markers are the lines of the comment that begin with a plus sign.
	markers []string
}

// load the types of a directory's Go files, tests and generated ones left out.
func load(dir string) (types, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no Go files in %s", dir)
	}
	out := types{}
	for _, f := range files {
		if base := filepath.Base(f); strings.HasSuffix(base, "_test.go") || strings.HasPrefix(base, "zz_generated") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("cannot parse %s: %w", f, err)
		}
		for _, d := range parsed.Decls {
			out.add(d)
		}
	}
	return out, nil
}

func (t types) add(d ast.Decl) {
	g, ok := d.(*ast.GenDecl)
	if !ok || g.Tok != token.TYPE {
		return
	}
	for _, s := range g.Specs {
		spec, ok := s.(*ast.TypeSpec)
		if !ok {
			continue
		}
		group := spec.Doc
		if group == nil {
			group = g.Doc
		}
		doc, markers := comment(group)
		t[spec.Name.Name] = &typeDoc{name: spec.Name.Name, doc: doc, markers: markers, expr: spec.Type}
	}
}

// comment as running text, and its markers.
func comment(g *ast.CommentGroup) (doc string, markers []string) {
	if g == nil {
		return "", nil
	}
	var lines []string
	for line := range strings.SplitSeq(g.Text(), "\n") {
		if strings.HasPrefix(line, "+") {
			markers = append(markers, line[1:])
		} else {
			lines = append(lines, line)
		}
	}
	return strings.Join(strings.Fields(strings.Join(lines, " ")), " "), markers
}

// reference of a struct and, after it, of those its fields have, as Markdown.
func (t types) reference(name string) (string, error) {
	var out []string
	seen := map[string]bool{}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		if seen[queue[0]] {
			continue
		}
		seen[queue[0]] = true
		text, next, err := t.section(queue[0])
		if err != nil {
			return "", err
		}
		out, queue = append(out, text), append(queue, next...)
	}
	return strings.Join(out, "\n"), nil
}

func (t types) section(name string) (text string, next []string, err error) {
	d := t[name]
	if d == nil {
		return "", nil, fmt.Errorf("there is no type %s", name)
	}
	s, ok := d.expr.(*ast.StructType)
	if !ok {
		return "", nil, fmt.Errorf("%s is no struct", name)
	}
	if d.doc == "" {
		return "", nil, fmt.Errorf("%s has no comment", name)
	}
	lines := []string{"#### " + name, "", d.doc, "", "| field | type | is |", "|---|---|---|"}
	for _, f := range s.Fields.List {
		row, below, err := t.row(f)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", name, err)
		}
		lines, next = append(lines, row...), append(next, below...)
	}
	return strings.Join(lines, "\n") + "\n", next, nil
}

// row of a field; none for what every object has.
func (t types) row(f *ast.Field) (rows, below []string, err error) {
	doc, markers := comment(f.Doc)
	kind, inner := t.kind(f.Type)
	if len(f.Names) == 0 {
		if strings.HasPrefix(kind, "metav1.") {
			return nil, nil, nil
		}
		_, short, _ := strings.Cut(kind, ".")
		return []string{fmt.Sprintf("| … | | and the fields of %s |", short)}, nil, nil
	}
	name := jsonName(f)
	if doc == "" {
		if name == "apiVersion" || name == "kind" || name == "namespace" || name == "name" {
			doc = "Of the object."
		} else {
			return nil, nil, fmt.Errorf("field %s has no comment", name)
		}
	}
	if d := t[inner]; d != nil {
		if _, ok := d.expr.(*ast.StructType); ok {
			below = append(below, inner)
		} else if enum := marker(d.markers, "kubebuilder:validation:Enum="); enum != "" {
			kind = strings.Replace(kind, inner, "`"+strings.ReplaceAll(enum, ";", "`, `")+"`", 1)
		} else {
			kind = strings.Replace(kind, inner, "string", 1)
		}
	}
	if value := marker(markers, "kubebuilder:default="); value != "" {
		doc += fmt.Sprintf(" Default: `%s`.", value)
	}
	return []string{fmt.Sprintf("| `%s` | %s | %s |", name, kind, strings.ReplaceAll(doc, "|", "\\|"))}, below, nil
}

func marker(markers []string, prefix string) string {
	for _, m := range markers {
		if value, ok := strings.CutPrefix(m, prefix); ok {
			return value
		}
	}
	return ""
}

func jsonName(f *ast.Field) string {
	if f.Tag != nil {
		if tag, err := strconv.Unquote(f.Tag.Value); err == nil {
			name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			return name
		}
	}
	return f.Names[0].Name
}

// durations and the like, as users write them.
var known = map[string]string{"metav1.Duration": "duration", "int": "integer", "int64": "integer", "bool": "boolean"}

// kind of an expression as a phrase, and the name of the type within it.
func (t types) kind(e ast.Expr) (text, inner string) {
	switch x := e.(type) {
	case *ast.Ident:
		if w := known[x.Name]; w != "" {
			return w, x.Name
		}
		return x.Name, x.Name
	case *ast.StarExpr:
		return t.kind(x.X)
	case *ast.ArrayType:
		text, inner = t.kind(x.Elt)
		return "list of " + text, inner
	case *ast.MapType:
		text, inner = t.kind(x.Value)
		return "map of " + text, inner
	case *ast.SelectorExpr:
		name := fmt.Sprint(x.X) + "." + x.Sel.Name
		if w := known[name]; w != "" {
			return w, name
		}
		return name, name
	}
	return "object", ""
}
