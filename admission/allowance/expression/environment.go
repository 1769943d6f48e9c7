package expression

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Variables of every expression.
const (
	varObject    = "object"
	varOldObject = "oldObject"
	varRequest   = "request"
	varParent    = "parent"
	// Those of ApprovalRules.
	varChange   = "change"
	varResource = "resource"
)

// compatibility is the version of Kubernetes whose CEL libraries expressions may
// use: the oldest that Kausality runs on.
var compatibility = version.MajorMinor(1, 30)

// env of the expressions of policies, and rulesEnv of those of ApprovalRules. Each is built once: it takes some
// milliseconds and is never modified.
var (
	env = sync.OnceValues(func() (*cel.Env, error) {
		return environmentOf(cel.Variable(varObject, cel.DynType), cel.Variable(varOldObject, cel.DynType),
			cel.Variable(varRequest, cel.MapType(cel.StringType, cel.DynType)), cel.Variable(varParent, cel.DynType))
	})
	rulesEnv = sync.OnceValues(func() (*cel.Env, error) {
		return environmentOf(cel.Variable(varChange, cel.ListType(cel.DynType)), cel.Variable(varResource, cel.MapType(cel.StringType, cel.DynType)))
	})
)

func environmentOf(variables ...cel.EnvOption) (*cel.Env, error) {
	set, err := environment.MustBaseEnvSet(compatibility).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        append(variables, cel.Macros(cel.GlobalMacro(operators.Has, 1, has))),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot set up CEL: %w", err)
	}
	return set.StoredExpressionsEnv(), nil
}

// has extends CEL's macro of that name: has(e.f) is unchanged, and has(e['k']) is short for has(e) && 'k' in e.
func has(eh cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
	switch arg := args[0]; arg.Kind() {
	case ast.SelectKind:
		s := arg.AsSelect()
		return eh.NewPresenceTest(s.Operand(), s.FieldName()), nil
	case ast.CallKind:
		call := arg.AsCall()
		if call.FunctionName() != operators.Index || len(call.Args()) != 2 {
			break
		}
		m, key := call.Args()[0], call.Args()[1]
		in := eh.NewCall(operators.In, eh.Copy(key), eh.Copy(m))
		if m.Kind() != ast.SelectKind {
			return in, nil
		}
		s := m.AsSelect()
		return eh.NewCall(operators.LogicalAnd, eh.NewPresenceTest(eh.Copy(s.Operand()), s.FieldName()), in), nil
	}
	return nil, eh.NewError(args[0].ID(), "invalid argument to has(): write has(object.field) or has(object.map['key'])")
}
