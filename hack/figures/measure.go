package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// Kinds of figures.
const (
	kindLines    = "lines"
	kindMethods  = "methods"
	kindFields   = "fields"
	kindWriters  = "writers"
	kindComments = "comments"
)

// A figure is a kind, and the package, type, field or directory that is measured.
type figure struct{ kind, of string }

// figures and their values.
type figures struct {
	values map[figure]int
	// writers of each field, sorted.
	writers map[figure][]string
}

// measure the product below root.
func measure(root string) (figures, error) {
	fset := token.NewFileSet()
	files, err := load(fset, root)
	if err != nil {
		return figures{}, err
	}
	t, err := check(fset, root, files)
	if err != nil {
		return figures{}, err
	}
	m := figures{values: map[figure]int{}, writers: map[figure][]string{}}
	m.text(files)
	for _, p := range t.checked {
		m.widths(p)
	}
	m.declarations(t, files)
	return m, nil
}

// text counts lines and comments.
func (m figures) text(files []*file) {
	comments, all := map[string]int{}, map[string]int{}
	for _, f := range files {
		if !f.generated {
			m.values[figure{kindLines, f.dir}] += f.lines
			top := directory(f.dir)
			comments[top] += f.comments
			all[top] += f.comments + f.code
		}
	}
	for top := range all {
		m.values[figure{kindComments, top}] = 1000 * comments[top] / all[top]
	}
}

// directory of the root that a package is in; that of internal, where it is in one of these.
func directory(of string) string {
	names := strings.SplitN(of, "/", 3)
	if names[0] != "internal" || len(names) == 1 {
		return names[0]
	}
	return names[0] + "/" + names[1]
}

// widths notes the types of a package, its structs and their fields.
func (m figures) widths(p *types.Package) {
	for _, name := range p.Scope().Names() {
		t, ok := p.Scope().Lookup(name).(*types.TypeName)
		if !ok || t.IsAlias() {
			continue
		}
		of := nameOf(t.Type())
		m.values[figure{kindMethods, of}] = 0
		if s, ok := t.Type().Underlying().(*types.Struct); ok {
			m.values[figure{kindFields, of}] = s.NumFields()
			for field := range s.Fields() {
				m.values[figure{kindWriters, of + "." + field.Name()}] = 0
			}
		}
	}
}

// declarations counts methods and writers.
func (m figures) declarations(t *typed, files []*file) {
	writers := map[figure]map[string]bool{}
	for _, f := range files {
		if f.generated || !f.built {
			continue
		}
		for _, decl := range f.ast.Decls {
			name := f.dir
			switch d := decl.(type) {
			case *ast.GenDecl:
				name += "'s variables"
			case *ast.FuncDecl:
				if d.Recv != nil {
					name = nameOf(t.info.TypeOf(d.Recv.List[0].Type))
					m.values[figure{kindMethods, name}]++
				}
				name += "." + d.Name.Name
			}
			t.writes(decl, func(structure, field string) {
				of := figure{kindWriters, structure + "." + field}
				if writers[of] == nil {
					writers[of] = map[string]bool{}
				}
				writers[of][name] = true
			})
		}
	}
	for of, names := range writers {
		if _, declared := m.values[of]; declared && !strings.HasPrefix(of.of, "api/") {
			m.values[of], m.writers[of] = len(names), slices.Sorted(maps.Keys(names))
		}
	}
}
