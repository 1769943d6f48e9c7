package expression

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Budget of the expressions of one policy in one decision, in CEL cost units: about a
// quarter of a second at the worst, as Kubernetes gives the match conditions of all its
// webhooks. The policies of one Namespace, and those that are cluster-scoped, have twice
// as much together: a costly policy does not keep those of others from being evaluated
// (KR-13-45).
const Budget = celconfig.RuntimeCELCostBudgetMatchConditions

// callLimit of one expression, in CEL cost units: about a tenth of a second.
const callLimit = celconfig.PerCallLimit

// ErrBudget is returned (wrapped) for an expression that costs more than it may.
var ErrBudget = errors.New("it costs more than its budget")

// Input of an expression: JSON values as the variables hold them; nil is null.
type Input struct {
	Object, OldObject, Parent map[string]any
	Request                   map[string]any
	// Change and Resource are for ApprovalRules, and the others for policies.
	Change   []any
	Resource map[string]any

	spent      *spending
	activation interpreter.Activation
}

// spending of one decision, in CEL cost units: of each policy, and of the policies of
// each Namespace together. All Inputs of a decision share it.
type spending struct {
	policy, namespace     string
	byPolicy, ofNamespace map[string]uint64
}

// For selects the policy, by its key, that pays for the next evaluations: their cost is taken from its budget. The
// namespace is that of the policy, empty for a cluster-scoped one.
func (in *Input) For(namespace, policy string) {
	s := in.account()
	s.namespace, s.policy = namespace, policy
}

// Before returns the input about the object before the change. It shares the budgets.
func (in *Input) Before() *Input {
	return &Input{Object: in.OldObject, OldObject: in.OldObject, Request: in.Request, Parent: in.Parent, spent: in.account()}
}

func (in *Input) account() *spending {
	if in.spent == nil {
		in.spent = &spending{byPolicy: map[string]uint64{}, ofNamespace: map[string]uint64{}}
	}
	return in.spent
}

// exhausted reports whether the current policy has nothing left to spend.
func (s *spending) exhausted() bool {
	return s.byPolicy[s.policy] >= Budget || s.ofNamespace[s.namespace] >= 2*Budget
}

func (s *spending) add(cost uint64) {
	s.byPolicy[s.policy] += cost
	s.ofNamespace[s.namespace] += cost
}

// Program is a compiled expression. It is safe for concurrent use; an Input is
// not.
type Program struct {
	text string
	prog cel.Program
	expr ast.Expr
}

// True evaluates the expression. Its cost is taken from the budget of the policy that the input is for. An error is
// one of the evaluation, as for a field that does not exist, or ErrBudget.
func (p *Program) True(ctx context.Context, in *Input) (bool, error) {
	spent := in.account()
	if spent.exhausted() {
		return false, fmt.Errorf("expression %q: %w: in one decision the expressions of a policy may cost %d, those of all policies of its Namespace %d",
			p.text, ErrBudget, Budget, 2*Budget)
	}
	activation, err := in.vars()
	if err != nil {
		return false, err
	}
	value, details, err := p.prog.ContextEval(ctx, activation)
	if details != nil && details.ActualCost() != nil {
		spent.add(*details.ActualCost())
	}
	if err != nil {
		var cost interpreter.EvalCancelledError
		if errors.As(err, &cost) && cost.Cause == interpreter.CostLimitExceeded {
			spent.add(callLimit)
			return false, fmt.Errorf("expression %q: %w of %d", p.text, ErrBudget, callLimit)
		}
		return false, fmt.Errorf("expression %q: %w", p.text, p.shown(err))
	}
	b, ok := value.Value().(bool)
	if !ok {
		return false, fmt.Errorf("expression %q is no true or false but %s", p.text, value.Type().TypeName())
	}
	return b, nil
}

var errHidden = errors.New("it cannot be evaluated on this object")

// shown returns an error of an evaluation without values of the object, which may be secret (KR-13-26). Errors about
// a conversion or a computed key contain such values.
func (p *Program) shown(err error) error {
	text := err.Error()
	if key, ok := strings.CutPrefix(text, "no such key: "); ok && strings.Contains(p.text, key) {
		return err
	}
	if strings.HasPrefix(text, "no such overload") || strings.HasPrefix(text, "no such attribute") || text == "division by zero" {
		return err
	}
	return errHidden
}

func (in *Input) vars() (interpreter.Activation, error) {
	if in.activation != nil {
		return in.activation, nil
	}
	variables := map[string]any{varObject: orNull(in.Object), varOldObject: orNull(in.OldObject), varRequest: in.Request, varParent: orNull(in.Parent)}
	if in.Resource != nil {
		variables = map[string]any{varChange: in.Change, varResource: in.Resource}
	}
	a, err := interpreter.NewActivation(variables)
	if err != nil {
		return nil, fmt.Errorf("cannot set the variables of an expression: %w", err)
	}
	in.activation = a
	return a, nil
}

func orNull(m map[string]any) any {
	if m == nil {
		return nil
	}
	return m
}

// compile compiles an expression, with cost limits; the error has its line and column (KR-05-54).
func compile(environment func() (*cel.Env, error), text string) (*Program, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(text)
	if issues != nil && len(issues.Errors()) > 0 {
		e := issues.Errors()[0]
		return nil, fmt.Errorf("line %d, column %d: %s", e.Location.Line(), e.Location.Column()+1, e.Message)
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("line 1, column 1: it must be true or false, and is %s", t)
	}
	prog, err := env.Program(checked, cel.CostLimit(callLimit), cel.CostTracking(nil),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency), cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost))
	if err != nil {
		return nil, fmt.Errorf("cannot plan the expression: %w", err)
	}
	return &Program{text: text, prog: prog, expr: checked.NativeRep().Expr()}, nil
}

// Regexp compiles an RE2 expression that must match a text as a whole. The error
// names the part that does not parse.
func Regexp(text string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(text); err != nil {
		return nil, err // as it was written, so that the message quotes it
	}
	return regexp.Compile(`\A(?:` + text + `)\z`)
}
