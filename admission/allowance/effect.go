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
	c := &compiler{}
	c.policy(p)
	return c.certain, c.possible
}

// IneffectiveUpgrade returns the same as Ineffective, for an UpgradeAllowance.
func IneffectiveUpgrade(u *v1alpha1.UpgradeAllowance) (certain, possible []RuleError) {
	c := &compiler{rule: UpgradeRule}
	c.shorthandAllow(UpgradeRule, u.Spec.Allow)
	return c.certain, c.possible
}

// effects collects the verbs of relation External that have no effect on a target.
func (c *compiler) effects(field string, target verb.Target, a *allowed) {
	if !a.external {
		return
	}
	for i, v := range a.verbs {
		why, certain := target.Unfit(v)
		if why == "" {
			continue
		}
		one := RuleError{Rule: c.rule, Field: fmt.Sprintf("spec.%s[%d]", field, i), Message: fmt.Sprintf("%q has no effect: %s", v, why)}
		if certain {
			c.certain = append(c.certain, one)
		} else {
			one.Message = fmt.Sprintf("%q: %s", v, why)
			c.possible = append(c.possible, one)
		}
	}
}
