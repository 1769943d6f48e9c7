package controller

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kausality-io/function-kausality/test/provider/apis/aws"
	"github.com/kausality-io/function-kausality/test/provider/apis/v1alpha1"
	"github.com/kausality-io/function-kausality/test/provider/external"
)

// Setup adds a controller for every kind to the manager. Asynchronous
// operations end when the context does.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := setup(ctx, mgr, v1alpha1.DatabaseGroupVersionKind, external.Databases(), o); err != nil {
		return err
	}
	return setup(ctx, mgr, aws.InstanceGroupVersionKind, external.Instances(), o)
}
