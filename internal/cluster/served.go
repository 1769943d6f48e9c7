package cluster

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ServesPolicies reports whether the API server serves the kinds of Kausality; an error where it does not, or not all of them.
func (c *Cluster) ServesPolicies() error {
	list, err := c.Kubernetes.Discovery().ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		return fmt.Errorf("cannot discover %s: %w", v1alpha1.GroupVersion, err)
	}
	for _, want := range servedResources {
		if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == want }) {
			return fmt.Errorf("the API server does not serve %s.%s", want, v1alpha1.Group)
		}
	}
	return nil
}

// servedResources are all that the CRDs of Kausality define.
var servedResources = append(v1alpha1.PolicyResources(), v1alpha1.ResourceKausalities, v1alpha1.ResourceDrifts, v1alpha1.ResourceDriftReceivers,
	v1alpha1.ResourceRollouts, v1alpha1.ResourceClusterRollouts, v1alpha1.ResourceRolloutBatches)
