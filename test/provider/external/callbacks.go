package external

import (
	"context"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	kclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"

	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"
)

// A Callback is called when an asynchronous operation has ended.
type Callback func(ctx context.Context, name types.NamespacedName, t OperationType, err error) error

// StatusCallback reports the end of operations in the status of the managed
// resource, and then requests a reconcile by calling requeue, which must not
// block. Like upjet's APICallbacks it reports LastAsyncOperation and Synced;
// AsyncOperation only if finished is true.
func StatusCallback[MG resource.Managed](c kclient.Client, fresh kclient.Reader, newManaged func() MG, finished bool,
	requeue func(types.NamespacedName, error)) Callback {
	return func(ctx context.Context, name types.NamespacedName, t OperationType, opErr error) error {
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			mg := newManaged()
			if err := fresh.Get(ctx, name, mg); err != nil {
				return err
			}
			mg.SetConditions(LastAsyncOperation(t, opErr), synced(t, opErr))
			if finished {
				mg.SetConditions(AsyncOperationFinished())
			}
			return c.Status().Update(ctx, mg)
		})
		requeue(name, opErr)
		if kerrors.IsNotFound(err) {
			return nil // Deletion ended, and so did the managed resource.
		}
		return errors.Wrapf(err, "cannot report the end of an async %s of %s", t, name)
	}
}

func synced(t OperationType, err error) xpv2.Condition {
	if err == nil {
		return xpv2.ReconcileSuccess()
	}
	return xpv2.ReconcileError(errors.Wrapf(err, "%s failed", t))
}
