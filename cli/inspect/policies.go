package inspect

import (
	"context"
	"fmt"
	"slices"

	kerrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/policystore"
)

// policies returns the policies of the cluster, read and compiled when they are first needed. A kind
// whose CRD is not installed has none; rules that do not compile grant nothing,
// as in the webhook.
func (i *Inspector) policies(ctx context.Context) (*allowance.Set, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.set != nil {
		return i.set, nil
	}
	var all []*policystore.Compiled
	for _, resource := range v1alpha1.PolicyResources() {
		for o, err := range informer.Items(ctx, i.Direct.Dynamic.Resource(v1alpha1.GroupVersion.WithResource(resource)), informer.PageSize) {
			if kerrors.IsNotFound(err) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("cannot read the policies that decisions depend on: %w", err)
			}
			c, err := policystore.Compile(o)
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
	}
	i.set = policystore.NewSet(slices.Values(all))
	return i.set, nil
}
