package policystore

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Compiled is a compiled policy: one of Allowance, Upgrade and Exception is set.
type Compiled struct {
	Allowance *allowance.Compiled
	Upgrade   *allowance.Upgrade
	Exception *allowance.Exception
	// Rules in the order of the spec, each with its errors.
	Rules []v1alpha1.RuleStatus
	// Errors of all rules.
	Errors []allowance.RuleError
}

// Compile a policy of any of the four kinds. It is an error where the object is
// not a policy or cannot be read as one; errors of its rules are in the result.
func Compile(o *unstructured.Unstructured) (*Compiled, error) {
	switch o.GetKind() {
	case v1alpha1.KindAllowancePolicy:
		p, err := typed[v1alpha1.AllowancePolicy](o)
		if err != nil {
			return nil, err
		}
		c, errs := allowance.Compile(p)
		return &Compiled{Allowance: c, Errors: errs, Rules: statuses(allowanceRules(p), errs)}, nil
	case v1alpha1.KindUpgradeAllowance:
		p, err := typed[v1alpha1.UpgradeAllowance](o)
		if err != nil {
			return nil, err
		}
		c, errs := allowance.CompileUpgrade(p)
		return &Compiled{Upgrade: c, Errors: errs, Rules: statuses([]string{allowance.UpgradeRule}, errs)}, nil
	case v1alpha1.KindApprovalPolicy:
		p, err := typed[v1alpha1.ApprovalPolicy](o)
		if err != nil {
			return nil, err
		}
		c, errs := allowance.CompileApproval(p)
		return &Compiled{Exception: c, Errors: errs, Rules: statuses(numbered(len(p.Spec.Rules)), errs)}, nil
	case v1alpha1.KindClusterApprovalPolicy:
		p, err := typed[v1alpha1.ClusterApprovalPolicy](o)
		if err != nil {
			return nil, err
		}
		c, errs := allowance.CompileClusterApproval(p)
		return &Compiled{Exception: c, Errors: errs, Rules: statuses(numbered(len(p.Spec.Rules)), errs)}, nil
	}
	return nil, fmt.Errorf("%s %s is no policy", o.GetKind(), o.GetName())
}

func typed[T any](o *unstructured.Unstructured) (*T, error) {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
		return nil, fmt.Errorf("cannot read %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return out, nil
}

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

func numbered(n int) []string {
	out := make([]string, 0, n)
	for i := range n {
		out = append(out, fmt.Sprintf("rules[%d]", i))
	}
	return out
}

// maxRuleErrors bounds the errors in the status of one rule.
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
func (s *Store) compile(o *unstructured.Unstructured) (*item, error) {
	if it, ok := s.compiled[o.GetUID()]; ok && it.generation == o.GetGeneration() {
		if it.exception == nil {
			return it, nil
		}
		claims, err := claimsOf(o)
		if err != nil {
			return nil, err
		}
		with := *it
		with.exception = it.exception.WithClaims(claims)
		return &with, nil
	}
	c, err := Compile(o)
	if err != nil {
		return nil, err
	}
	return &item{generation: o.GetGeneration(), policy: c.Allowance, upgrade: c.Upgrade, exception: c.Exception, rules: c.Rules}, nil
}
