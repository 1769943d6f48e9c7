package allowance

import (
	"fmt"

	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Ineffective returns errors for the verbs of relation External in a policy that have no effect on the objects that
// the policy allows them for. certain are those that can have no effect. The effect of those in possible depends on
// kinds that the policy does not name. Both are in the order of the spec, nil where there is no such verb, and with
// equal messages for equal verbs of equal targets (KR-08-51).
func Ineffective(p *v1alpha1.AllowancePolicy) (certain, possible []RuleError) {
	e := effects{}
	if s := p.Spec.Initializing; s != nil {
		e.long("initializing", "initializing.allow", s.Allow)
	}
	if s := p.Spec.Deleting; s != nil {
		e.long("deleting", "deleting.allow", s.Allow)
	}
	for i, r := range p.Spec.Rules {
		rule := fmt.Sprintf("rules[%d]", i)
		e.long(rule, rule+".allow", r.Allow)
	}
	e.shorthand("match", p.Spec.Allow)
	return e.certain, e.possible
}

// IneffectiveUpgrade returns the same as Ineffective, for an UpgradeAllowance.
func IneffectiveUpgrade(u *v1alpha1.UpgradeAllowance) (certain, possible []RuleError) {
	e := effects{}
	e.shorthand(UpgradeRule, u.Spec.Allow)
	return e.certain, e.possible
}

// effects collects what is ineffective.
type effects struct{ certain, possible []RuleError }

func (e *effects) long(rule, field string, in []v1alpha1.AllowedChange) {
	for i, a := range in {
		target := verb.Target{AnyKind: true, AnyGroup: true}
		if a.Target != nil {
			target = verb.Target{Group: a.Target.APIGroup, Kind: a.Target.Kind}
		}
		if a.Relation == v1alpha1.RelationExternal {
			e.check(rule, fmt.Sprintf("%s[%d].verbs", field, i), target, a.Verbs)
		}
	}
}

func (e *effects) shorthand(rule string, in []v1alpha1.ShorthandAllow) {
	for i, a := range in {
		target := verb.Target{Kind: a.Kind, AnyGroup: a.APIGroup == nil, AnyKind: a.Kind == ""}
		if a.APIGroup != nil {
			target.Group = *a.APIGroup
		}
		if a.Relation == v1alpha1.RelationExternal {
			e.check(rule, fmt.Sprintf("allow[%d].mutations", i), target, a.Mutations)
		}
	}
}

func (e *effects) check(rule, field string, target verb.Target, verbs []string) {
	for i, v := range verbs {
		why, certain := target.Unfit(v)
		if why == "" {
			continue
		}
		one := RuleError{Rule: rule, Field: fmt.Sprintf("spec.%s[%d]", field, i), Message: fmt.Sprintf("%q has no effect: %s", v, why)}
		if certain {
			e.certain = append(e.certain, one)
		} else {
			one.Message = fmt.Sprintf("%q: %s", v, why)
			e.possible = append(e.possible, one)
		}
	}
}
