package policycontroller

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// maxSelectedBy bounds the keys of labels in the conditions of the webhook: the API server goes over them for each
// request that changes labels.
const maxSelectedBy = 50

// selectedBy returns the keys of the labels by which ApprovalRules and UpgradeAllowances select objects, sorted: the webhook is called where
// they change, and decides who may (KR-13-46, KR-14-60). Past the bound, those of the last ones by name are left out, of UpgradeAllowances first.
func (c *Controller) selectedBy(ctx context.Context) ([]string, error) {
	rules, upgrades := &v1alpha1.ApprovalRuleList{}, &v1alpha1.UpgradeAllowanceList{}
	for _, list := range []client.ObjectList{rules, upgrades} {
		if err := c.Cached.List(ctx, list); err != nil {
			return nil, fmt.Errorf("cannot list what selects objects by labels: %w", err)
		}
	}
	keys := sets.New[string]()
	slices.SortFunc(rules.Items, func(a, b v1alpha1.ApprovalRule) int { return cmp.Compare(a.Name, b.Name) })
	for _, r := range rules.Items {
		c.selecting(keys, r.Spec.Match.LabelSelector, "approvalRule", r.Name)
	}
	slices.SortFunc(upgrades.Items, func(a, b v1alpha1.UpgradeAllowance) int { return cmp.Compare(a.Name, b.Name) })
	for _, u := range upgrades.Items {
		c.selecting(keys, u.Spec.Selector, "upgradeAllowance", u.Name)
	}
	return sets.List(keys), nil
}

// selecting adds the keys of a selector; nil for none.
func (c *Controller) selecting(keys sets.Set[string], s *metav1.LabelSelector, kind, name string) {
	if s == nil {
		return
	}
	more := sets.KeySet(s.MatchLabels)
	for _, r := range s.MatchExpressions {
		more.Insert(r.Key)
	}
	if keys.Union(more).Len() > maxSelectedBy {
		c.Log.Info("Too many label keys in selectors: changes of those that this object selects by need no approval", kind, name)
		return
	}
	keys.Insert(more.UnsortedList()...)
}
