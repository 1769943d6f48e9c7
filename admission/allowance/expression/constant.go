package expression

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Outcome of an expression for all objects that are possible.
type Outcome string

// Outcomes.
const (
	// Depends on the object.
	Depends Outcome = "Depends"
	// AlwaysTrue for every object.
	AlwaysTrue Outcome = "True"
	// AlwaysFalse for every object.
	AlwaysFalse Outcome = "False"
	// AlwaysFails: it cannot be evaluated for any object.
	AlwaysFails Outcome = "Fails"
)

// Lacks returns the first field on a path that objects never have; "" where they may have all of them. The path is that
// below the variables object and oldObject.
type Lacks func(path []string) string

// Constant evaluates the expression for objects of a kind that lack fields. It returns the outcome for all such
// objects, and the missing field that decides it. The field is empty where the outcome depends on the object or no
// field decides. An expression that this function does not understand depends on the object.
func (p *Program) Constant(lacks Lacks) (Outcome, string) {
	c := constant{lacks: lacks}
	out := c.eval(p.expr)
	if out == Depends {
		return out, ""
	}
	return out, c.by
}

// constant evaluates by what objects lack.
type constant struct {
	lacks Lacks
	// by is the last field that was found to be lacking.
	by string
}

func (c *constant) eval(e ast.Expr) Outcome {
	switch e.Kind() {
	case ast.LiteralKind:
		switch e.AsLiteral() {
		case types.True:
			return AlwaysTrue
		case types.False:
			return AlwaysFalse
		}
		return Depends
	case ast.SelectKind:
		return c.selection(e)
	case ast.CallKind:
		return c.call(e.AsCall())
	case ast.ComprehensionKind:
		return failing(c.eval(e.AsComprehension().IterRange()))
	}
	return Depends
}

// selection evaluates the selection of a field, or the test whether it exists.
func (c *constant) selection(e ast.Expr) Outcome {
	path, ok := pathOf(e)
	if !ok {
		return failing(c.eval(e.AsSelect().Operand()))
	}
	by := c.lacks(path)
	if by == "" {
		return Depends
	}
	c.by = by
	switch above := c.lacks(path[:len(path)-1]) != ""; {
	case !e.AsSelect().IsTestOnly():
		return AlwaysFails
	case above && path[0] != "status":
		return AlwaysFails
	default:
		return AlwaysFalse // without a status, an expression is evaluated with an empty one (KR-06-25)
	}
}

func (c *constant) call(call ast.CallExpr) Outcome {
	args := call.Args()
	switch call.FunctionName() {
	case operators.LogicalNot:
		switch out := c.eval(args[0]); out {
		case AlwaysTrue:
			return AlwaysFalse
		case AlwaysFalse:
			return AlwaysTrue
		default:
			return out
		}
	case operators.LogicalAnd:
		return c.logical(args, AlwaysFalse, AlwaysTrue)
	case operators.LogicalOr:
		return c.logical(args, AlwaysTrue, AlwaysFalse)
	case operators.Conditional:
		return c.conditional(args)
	case operators.In:
		if c.key(args[0], args[1]) {
			return AlwaysFalse
		}
	case operators.OptSelect, operators.OptIndex:
		return Depends
	case operators.Index:
		if path, ok := pathOfCall(call); ok {
			if by := c.lacks(path); by != "" {
				c.by = by
				return AlwaysFails
			}
		}
	}
	if call.IsMemberFunction() && failing(c.eval(call.Target())) == AlwaysFails {
		return AlwaysFails
	}
	for _, a := range args {
		if c.eval(a) == AlwaysFails {
			return AlwaysFails
		}
	}
	return Depends
}

// logical evaluates a logical operator, in CEL's logic. One decisive side decides, whatever the other is; an error of
// one side is the result where the other is neutral.
func (c *constant) logical(args []ast.Expr, decisive, neutral Outcome) Outcome {
	left, right := c.eval(args[0]), c.eval(args[1])
	switch {
	case left == decisive, right == decisive:
		return decisive
	case left == neutral:
		return right
	case right == neutral, left == right:
		return left
	}
	return Depends
}

func (c *constant) conditional(args []ast.Expr) Outcome {
	switch c.eval(args[0]) {
	case AlwaysTrue:
		return c.eval(args[1])
	case AlwaysFalse:
		return c.eval(args[2])
	case AlwaysFails:
		return AlwaysFails
	}
	if yes, no := c.eval(args[1]), c.eval(args[2]); yes == no {
		return yes
	}
	return Depends
}

// key reports whether a constant key is one that objects lack, in a map that they have.
func (c *constant) key(key, of ast.Expr) bool {
	path, ok := pathOf(of)
	if !ok || key.Kind() != ast.LiteralKind || c.lacks(path) != "" {
		return false
	}
	name, ok := key.AsLiteral().Value().(string)
	if by := c.lacks(append(path, name)); ok && by != "" {
		c.by = by
		return true
	}
	return false
}

// failing returns the outcome of an operation on a value with the given outcome: it fails where the value fails, and
// depends on the object otherwise.
func failing(out Outcome) Outcome {
	if out == AlwaysFails {
		return AlwaysFails
	}
	return Depends
}

// pathOf returns the path of a field of object or oldObject; ok is false for other expressions.
func pathOf(e ast.Expr) (path []string, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return nil, e.AsIdent() == varObject || e.AsIdent() == varOldObject
	case ast.SelectKind:
		path, ok = pathOf(e.AsSelect().Operand())
		return append(path, e.AsSelect().FieldName()), ok
	case ast.CallKind:
		return pathOfCall(e.AsCall())
	}
	return nil, false
}

// pathOfCall returns the path of an index with a string, as in object.metadata.labels['env'].
func pathOfCall(call ast.CallExpr) (path []string, ok bool) {
	if call.FunctionName() != operators.Index || len(call.Args()) != 2 || call.Args()[1].Kind() != ast.LiteralKind {
		return nil, false
	}
	key, is := call.Args()[1].AsLiteral().Value().(string)
	if !is {
		return nil, false
	}
	path, ok = pathOf(call.Args()[0])
	return append(path, key), ok
}
