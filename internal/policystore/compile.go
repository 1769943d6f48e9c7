package policystore

import (
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Compiled is a compiled policy: one of Allowance, Upgrade, Exception and Approvals is set.
type Compiled struct {
	Allowance *allowance.Compiled
	Upgrade   *allowance.Upgrade
	Exception *allowance.Exception
	Approvals *allowance.Rule
	// Rules in the order of the spec, each with its errors.
	Rules []v1alpha1.RuleStatus
	// Errors of all rules.
	Errors []allowance.RuleError

	// generation at which it was compiled.
	generation int64
}

// NewSet of policies of all kinds, which decide alike in any order.
func NewSet(policies iter.Seq[*Compiled]) *allowance.Set {
	var allowances []*allowance.Compiled
	var upgrades []*allowance.Upgrade
	var exceptions []*allowance.Exception
	var rules []*allowance.Rule
	for p := range policies {
		switch {
		case p.Allowance != nil:
			allowances = append(allowances, p.Allowance)
		case p.Upgrade != nil:
			upgrades = append(upgrades, p.Upgrade)
		case p.Exception != nil:
			exceptions = append(exceptions, p.Exception)
		case p.Approvals != nil:
			rules = append(rules, p.Approvals)
		}
	}
	return allowance.NewSet(allowances, upgrades, exceptions).WithRules(rules)
}

// Compile a policy of any kind. It is an error where the object is
// not a policy or cannot be read as one; errors of its rules are in the result.
func Compile(o *unstructured.Unstructured) (*Compiled, error) {
	switch o.GetKind() {
	case v1alpha1.KindAllowancePolicy:
		return compileAs(o, func(p *v1alpha1.AllowancePolicy) (c Compiled, rules []string) {
			c.Allowance, c.Errors = allowance.Compile(p)
			return c, allowanceRules(p)
		})
	case v1alpha1.KindUpgradeAllowance:
		return compileAs(o, func(p *v1alpha1.UpgradeAllowance) (c Compiled, rules []string) {
			c.Upgrade, c.Errors = allowance.CompileUpgrade(p)
			return c, []string{allowance.UpgradeRule}
		})
	case v1alpha1.KindApprovalPolicy:
		return compileAs(o, func(p *v1alpha1.ApprovalPolicy) (c Compiled, rules []string) {
			c.Exception, c.Errors = allowance.CompileApproval(p)
			return c, numbered(len(p.Spec.Rules))
		})
	case v1alpha1.KindClusterApprovalPolicy:
		return compileAs(o, func(p *v1alpha1.ClusterApprovalPolicy) (c Compiled, rules []string) {
			c.Exception, c.Errors = allowance.CompileClusterApproval(p)
			return c, numbered(len(p.Spec.Rules))
		})
	case v1alpha1.KindApprovalRule:
		c, err := compileAs(o, func(p *v1alpha1.ApprovalRule) (c Compiled, rules []string) {
			c.Approvals, c.Errors = allowance.CompileRule(p)
			return c, []string{allowance.RuleOfApprovals}
		})
		if err != nil {
			return unreadable(o, err), nil
		}
		return c, nil
	}
	return nil, fmt.Errorf("%s %s is no policy", o.GetKind(), o.GetName())
}

// unreadable compiles an ApprovalRule that cannot be decoded, as with an invalid duration: what it is about stays held, and no approval meets it
// (KR-14-04). If that cannot be read either, it is about everything.
func unreadable(o *unstructured.Unstructured, err error) *Compiled {
	var r v1alpha1.ApprovalRule
	for _, field := range []string{"match", "appliesTo"} {
		value, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", field) // absent where the spec is no object
		read := v1alpha1.ApprovalRule{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"spec": map[string]any{field: value}}, &read) != nil {
			continue
		}
		if field == "match" {
			r.Spec.Match = read.Spec.Match
		} else {
			r.Spec.AppliesTo = read.Spec.AppliesTo
		}
	}
	r.Name = o.GetName()
	c := &Compiled{generation: o.GetGeneration()}
	c.Approvals, _ = allowance.CompileRule(&r) // it requires nothing, and does not compile
	c.Errors = []allowance.RuleError{{Rule: allowance.RuleOfApprovals, Field: "spec", Message: err.Error()}}
	c.Rules = statuses([]string{allowance.RuleOfApprovals}, c.Errors)
	return c
}

// Ineffective returns the verbs of relation External in a policy that have no effect, as
// allowance.Ineffective; nil for other policies and what cannot be read as one.
func Ineffective(o *unstructured.Unstructured) (certain, possible []allowance.RuleError) {
	switch o.GetKind() {
	case v1alpha1.KindAllowancePolicy:
		if p, err := typed[v1alpha1.AllowancePolicy](o); err == nil {
			return allowance.Ineffective(p)
		}
	case v1alpha1.KindUpgradeAllowance:
		if u, err := typed[v1alpha1.UpgradeAllowance](o); err == nil {
			return allowance.IneffectiveUpgrade(u)
		}
	}
	return nil, nil
}

// compileAs compiles a policy of a type. rules are all rules of its spec, in their order.
func compileAs[T any](o *unstructured.Unstructured, compile func(*T) (c Compiled, rules []string)) (*Compiled, error) {
	p, err := typed[T](o)
	if err != nil {
		return nil, err
	}
	c, rules := compile(p)
	c.generation, c.Rules = o.GetGeneration(), statuses(rules, c.Errors)
	return &c, nil
}

// typed object; the error names it.
func typed[T any](o *unstructured.Unstructured) (*T, error) {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
		return nil, fmt.Errorf("cannot read %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return out, nil
}

// allowanceRules returns the paths of all rules of an AllowancePolicy, in the order of its
// spec. The shorthand form is one rule.
func allowanceRules(p *v1alpha1.AllowancePolicy) []string {
	if p.Spec.Match != nil {
		return []string{"match"}
	}
	var out []string
	if p.Spec.Initializing != nil {
		out = append(out, "initializing")
	}
	if p.Spec.Deleting != nil {
		out = append(out, "deleting")
	}
	return append(out, numbered(len(p.Spec.Rules))...)
}

// numbered paths of n rules, as in rules[0].
func numbered(n int) []string {
	out := make([]string, 0, n)
	for i := range n {
		out = append(out, fmt.Sprintf("rules[%d]", i))
	}
	return out
}

// maxRuleErrors bounds the errors in the status of one rule: an object may have 1.5 MiB,
// and one mistake often leads to others.
const maxRuleErrors = 8

// statuses of rules with their errors; errors of the policy as a whole are added
// to all of them.
func statuses(rules []string, errs []allowance.RuleError) []v1alpha1.RuleStatus {
	out := make([]v1alpha1.RuleStatus, 0, len(rules))
	for _, r := range rules {
		s := v1alpha1.RuleStatus{Path: r, Compiled: true}
		for _, e := range errs {
			if e.Rule != r && e.Rule != "" {
				continue
			}
			s.Compiled = false
			if len(s.Errors) < maxRuleErrors {
				s.Errors = append(s.Errors, e.Error())
			}
		}
		out = append(out, s)
	}
	return out
}

// compile a policy of the cluster, unless its generation is compiled already:
// claims are in the status and do not change it. The caller holds s.mu.
func (s *Store) compile(o *unstructured.Unstructured) (*Compiled, error) {
	known := s.compiled[o.GetUID()]
	if known == nil || known.generation != o.GetGeneration() {
		known = s.live.compiled[o.GetUID()]
	}
	switch {
	case known == nil || known.generation != o.GetGeneration():
		return Compile(o)
	case known.Exception == nil:
		return known, nil
	}
	claims, err := claimsOf(o)
	if err != nil {
		return nil, err
	}
	current := *known
	current.Exception = known.Exception.WithClaims(claims)
	return &current, nil
}
