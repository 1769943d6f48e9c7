package main

import (
	"go/ast"
	"go/token"
	"go/types"
)

// writes calls write for each field that the declaration writes.
func (t *typed) writes(decl ast.Decl, write func(structure, field string)) {
	ast.Inspect(decl, func(n ast.Node) bool {
		var to []ast.Expr
		switch n := n.(type) {
		case *ast.AssignStmt:
			to = n.Lhs
		case *ast.IncDecStmt:
			to = []ast.Expr{n.X}
		case *ast.RangeStmt:
			to = []ast.Expr{n.Key, n.Value}
		case *ast.UnaryExpr:
			if _, whole := t.info.TypeOf(n.X).Underlying().(*types.Struct); n.Op == token.AND && !whole {
				to = []ast.Expr{n.X}
			}
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok {
				if _, ok := t.info.Uses[name].(*types.Builtin); ok && (name.Name == "delete" || name.Name == "clear" || name.Name == "copy") {
					to = n.Args[:1]
				}
			}
		}
		for _, e := range to {
			t.assigned(e, write)
		}
		return true
	})
}

// assigned calls write for each field that an assignment to e writes.
func (t *typed) assigned(e ast.Expr, write func(structure, field string)) {
	switch ast.Unparen(e).(type) {
	case *ast.StarExpr, *ast.IndexExpr:
		replaced(t.info.TypeOf(e), write)
	}
	t.changed(e, false, write)
}

// changed calls write for each field that a change of e changes: the one that e is, and those that have it as a part or as an element.
func (t *typed) changed(e ast.Expr, element bool, write func(structure, field string)) {
	switch e := ast.Unparen(e).(type) {
	case *ast.StarExpr:
		if _, whole := t.info.TypeOf(e).Underlying().(*types.Struct); !whole {
			t.changed(e.X, element, write)
		}
	case *ast.IndexExpr:
		t.changed(e.X, element || !t.isArray(e.X), write)
	case *ast.SliceExpr:
		t.changed(e.X, element || !t.isArray(e.X), write)
	case *ast.SelectorExpr:
		s := t.info.Selections[e]
		if s == nil || !element && !t.seen(e) {
			return
		}
		write(selected(s))
		if !s.Indirect() {
			t.changed(e.X, element, write)
		}
	}
}

// replaced calls write for all fields of a struct, and of those embedded in it.
func replaced(of types.Type, write func(structure, field string)) {
	if s, ok := of.Underlying().(*types.Struct); ok {
		for field := range s.Fields() {
			write(nameOf(of), field.Name())
			if field.Embedded() {
				replaced(field.Type(), write)
			}
		}
	}
}

// seen reports whether an assignment to e is seen outside of the function: e is reached through a pointer, a slice, a map or a package's variable.
func (t *typed) seen(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		v, ok := t.info.Uses[e].(*types.Var)
		return ok && v.Parent() == v.Pkg().Scope()
	case *ast.SelectorExpr:
		s := t.info.Selections[e]
		return s == nil || s.Indirect() || t.seen(e.X)
	case *ast.IndexExpr:
		return !t.isArray(e.X) || t.seen(e.X)
	}
	return true
}

func (t *typed) isArray(e ast.Expr) bool {
	_, ok := t.info.TypeOf(e).Underlying().(*types.Array)
	return ok
}

// selected returns the field that is selected, and the struct that declares it.
func selected(s *types.Selection) (structure, field string) {
	in := s.Recv()
	for _, i := range s.Index() {
		if p, ok := in.Underlying().(*types.Pointer); ok {
			in = p.Elem()
		}
		f := in.Underlying().(*types.Struct).Field(i)
		structure, field, in = nameOf(in), f.Name(), f.Type()
	}
	return structure, field
}
