package policycontroller

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// maxSelectedBy bounds the keys of labels in the conditions of the webhook: the API server goes over them for each
// request that changes labels.
const maxSelectedBy = 50

// selectedBy are the keys of the labels by which UpgradeAllowances select objects, sorted: the webhook is called where
// they change, and decides who may (KR-13-46). Past the bound, those of the last UpgradeAllowances by name are left out.
func (c *Controller) selectedBy(ctx context.Context) ([]string, error) {
	list := &v1alpha1.UpgradeAllowanceList{}
	if err := c.Cached.List(ctx, list); err != nil {
		return nil, fmt.Errorf("cannot list UpgradeAllowances: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.UpgradeAllowance) int { return cmp.Compare(a.Name, b.Name) })
	keys := sets.New[string]()
	for _, u := range list.Items {
		if u.Spec.Selector == nil {
			continue
		}
		more := sets.KeySet(u.Spec.Selector.MatchLabels)
		for _, r := range u.Spec.Selector.MatchExpressions {
			more.Insert(r.Key)
		}
		if all := keys.Union(more); all.Len() <= maxSelectedBy {
			keys = all
			continue
		}
		c.Log.Info("UpgradeAllowances select by too many labels: changes of those of this one need no approval", "upgradeAllowance", u.Name)
	}
	return sets.List(keys), nil
}
