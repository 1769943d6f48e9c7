package main

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// receiver returns the name of the type a method is of, "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}

	return typeName(fn.Recv.List[0].Type)
}

// typeName returns T for T, *T and T[P].
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.ParenExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	}

	return ""
}

// declared returns the functions and methods of the files.
func declared(files []*file) []*ast.FuncDecl {
	var fns []*ast.FuncDecl

	for _, f := range files {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
				fns = append(fns, fn)
			}
		}
	}

	return fns
}

// widest returns the type with the most methods, the first by name of several.
func widest(files []*file) (name string, methods int) {
	count := map[string]int{}

	for _, fn := range declared(files) {
		if of := receiver(fn); of != "" {
			count[of]++
		}
	}

	for _, of := range slices.Sorted(maps.Keys(count)) {
		if count[of] > methods {
			name, methods = of, count[of]
		}
	}

	return name, methods
}

// written are the fields that each step writes.
type written struct {
	// steps in their order.
	steps []string

	// fields and the steps that write them, in the order of the steps.
	fields map[string][]string
}

// shared returns the fields that more than sharedBy steps write, sorted.
func (w written) shared() []string {
	var fields []string

	for _, f := range slices.Sorted(maps.Keys(w.fields)) {
		if len(w.fields[f]) > sharedBy {
			fields = append(fields, f)
		}
	}

	return fields
}

// writes follows the steps of the package through its functions.
func writes(files []*file) written {
	w := written{steps: steps(files), fields: map[string][]string{}}
	bodies := map[string]body{}

	for _, fn := range declared(files) {
		// Methods of other types may have the same name. What they assign counts, too: rather a step
		// too many than one too few.
		b := bodies[fn.Name.Name]
		b.add(fn)
		bodies[fn.Name.Name] = b
	}

	for _, s := range w.steps {
		fields := map[string]bool{}
		reach(bodies, s, map[string]bool{}, fields)

		for f := range fields {
			w.fields[f] = append(w.fields[f], s)
		}
	}

	return w
}

// steps returns the names of the functions in the list that the variable steps is.
func steps(files []*file) []string {
	var names []string

	for _, f := range files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || spec.Names[0].Name != "steps" || len(spec.Values) != 1 {
				return true
			}

			if list, ok := spec.Values[0].(*ast.CompositeLit); ok {
				for _, e := range list.Elts {
					names = append(names, stepNames(e)...)
				}
			}

			return false
		})
	}

	return names
}

// stepNames returns the functions an element of the list of steps names: itself, or the fields of a
// struct that are functions.
func stepNames(e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.Ident:
		return []string{e.Name}
	case *ast.SelectorExpr:
		return []string{e.Sel.Name}
	case *ast.KeyValueExpr:
		return stepNames(e.Value)
	case *ast.CompositeLit:
		var names []string
		for _, elt := range e.Elts {
			names = append(names, stepNames(elt)...)
		}

		return names
	}

	return nil
}

// A body of a function: the fields of its receiver, or of what it is passed by pointer, that it
// assigns to, and the functions of the same package that it may call.
type body struct {
	fields, calls map[string]bool
}

// add what fn does.
func (b *body) add(fn *ast.FuncDecl) {
	if b.fields == nil {
		b.fields, b.calls = map[string]bool{}, map[string]bool{}
	}

	owners := pointers(fn)

	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				b.assign(l, owners)
			}
		case *ast.IncDecStmt:
			b.assign(n.X, owners)
		case *ast.CallExpr:
			switch f := n.Fun.(type) {
			case *ast.Ident:
				b.calls[f.Name] = true
			case *ast.SelectorExpr:
				if x, ok := f.X.(*ast.Ident); ok && owners[x.Name] {
					b.calls[f.Sel.Name] = true
				}
			}
		}

		return true
	})
}

// pointers returns the names by which fn can write what its caller sees: receiver and parameters that
// are pointers.
func pointers(fn *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}

	for _, list := range []*ast.FieldList{fn.Recv, fn.Type.Params} {
		if list == nil {
			continue
		}

		for _, field := range list.List {
			if _, ok := field.Type.(*ast.StarExpr); ok {
				for _, n := range field.Names {
					names[n.Name] = true
				}
			}
		}
	}

	return names
}

// assign notes the field that e is, such as d.Allowed of ev.d.Allowed.
func (b *body) assign(e ast.Expr, owners map[string]bool) {
	var fields []string

	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			fields = append(fields, x.Sel.Name)
			e = x.X

			continue
		case *ast.IndexExpr:
			e = x.X

			continue
		case *ast.ParenExpr:
			e = x.X

			continue
		case *ast.Ident:
			if owners[x.Name] && len(fields) > 0 {
				slices.Reverse(fields)
				b.fields[strings.Join(fields, ".")] = true
			}
		}

		return
	}
}

// reach adds the fields that the function writes, directly or through what it calls.
func reach(bodies map[string]body, name string, seen, fields map[string]bool) {
	b, ok := bodies[name]
	if !ok || seen[name] {
		return
	}

	seen[name] = true

	maps.Copy(fields, b.fields)

	for called := range b.calls {
		reach(bodies, called, seen, fields)
	}
}
