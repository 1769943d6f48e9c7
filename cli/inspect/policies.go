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

// policies of the cluster, read and compiled when they are first needed. A kind
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
		if err := i.eachPolicy(ctx, resource, func(c *policystore.Compiled) { all = append(all, c) }); err != nil {
			return nil, err
		}
	}
	i.set = policystore.NewSet(slices.Values(all))
	return i.set, nil
}

// eachPolicy compiles the policies of one resource and calls f with each.
func (i *Inspector) eachPolicy(ctx context.Context, resource string, f func(*policystore.Compiled)) error {
	for o, err := range informer.Items(ctx, i.Direct.Dynamic.Resource(v1alpha1.GroupVersion.WithResource(resource)), informer.PageSize) {
		if kerrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read the policies that decisions depend on: %w", err)
		}
		c, err := policystore.Compile(o)
		if err != nil {
			return err
		}
		f(c)
	}
	return nil
}
