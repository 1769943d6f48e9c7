package external

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
	"github.com/crossplane/crossplane-runtime/v2/pkg/meta"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"

	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"

	"github.com/kausality-io/function-kausality/test/provider/cloud"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// external is a client for one reconcile of one managed resource.
type external[MG resource.Managed, R Resource, F any] struct {
	*Connector[MG, R, F]

	collection *client.Collection[R, F]
	op         *Operation
	observed   cloud.Status // by Observe; empty if there is no resource
}

// Observe the external resource.
func (e *external[MG, R, F]) Observe(ctx context.Context, mg MG) (managed.ExternalObservation, error) {
	if _, running := e.op.Running(); running {
		if e.options.AsyncCondition {
			mg.SetConditions(AsyncOperationOngoing())
		}
		return managed.ExternalObservation{ResourceExists: true, ResourceUpToDate: true}, nil
	}
	e.op.Clear(true)
	o, err := e.observe(ctx, mg)
	if err == nil && e.reportsAsync(mg) {
		e.report(mg, o)
	}
	return o, err
}

func (e *external[MG, R, F]) observe(ctx context.Context, mg MG) (managed.ExternalObservation, error) {
	r, err := e.collection.Get(ctx, meta.GetExternalName(mg))
	if client.IsNotFound(err) {
		return managed.ExternalObservation{}, nil
	}
	if err != nil {
		return managed.ExternalObservation{}, errors.Wrap(err, "cannot get external resource")
	}
	e.refresh(mg, r)
	// The reconciler would not persist late initialisation without the policy,
	// but its other full updates of the object would include it.
	late := mayLateInitialize(mg) && e.kind.LateInitialize(mg, r)
	diff := e.kind.Diff(mg, r)
	unfinished := e.observed == cloud.StatusIncomplete || e.observed == cloud.StatusFailed
	return managed.ExternalObservation{
		ResourceExists:          true,
		ResourceUpToDate:        e.observed.Busy() || diff == "" && !unfinished,
		ResourceLateInitialized: late,
		Diff:                    diff,
	}, nil
}

// refresh the status of the managed resource.
func (e *external[MG, R, F]) refresh(mg MG, r R) {
	e.observed = r.Info().Status
	e.kind.Observe(mg, r)
	mg.SetConditions(ready(r.Info()))
}

// reportsAsync is true for managed resources that have or had asynchronous
// operations.
func (e *external[MG, R, F]) reportsAsync(mg MG) bool {
	return e.options.Async || mg.GetCondition(TypeLastAsyncOperation).Status != corev1.ConditionUnknown
}

// report that no operation goes on, and that the last one, whatever it was, is
// settled.
func (e *external[MG, R, F]) report(mg MG, o managed.ExternalObservation) {
	if e.options.AsyncCondition {
		mg.SetConditions(AsyncOperationFinished())
	}
	if o.ResourceExists && o.ResourceUpToDate && !e.observed.Busy() && !meta.WasDeleted(mg) {
		mg.SetConditions(LastAsyncOperation("", nil), xpv2.ReconcileSuccess())
		e.op.Clear(false)
	}
}

func mayLateInitialize(mg resource.Managed) bool {
	return sets.New(mg.GetManagementPolicies()...).HasAny(xpv2.ManagementActionLateInitialize, xpv2.ManagementActionAll)
}

// Create the external resource.
func (e *external[MG, R, F]) Create(ctx context.Context, mg MG) (managed.ExternalCreation, error) {
	name, desired := meta.GetExternalName(mg), e.kind.Desired(mg)
	return managed.ExternalCreation{}, e.run(ctx, mg, OperationCreate, func(ctx context.Context) (bool, error) {
		_, pending, err := e.collection.Put(ctx, name, desired)
		return pending, errors.Wrap(err, "cannot create external resource")
	})
}

// Update the external resource. The status is refreshed here, because the
// reconciler will not observe again before the poll interval.
func (e *external[MG, R, F]) Update(ctx context.Context, mg MG) (managed.ExternalUpdate, error) {
	name, changes := meta.GetExternalName(mg), e.kind.Changes(mg)
	return managed.ExternalUpdate{}, e.run(ctx, mg, OperationUpdate, func(ctx context.Context) (bool, error) {
		r, pending, err := e.collection.Patch(ctx, name, changes)
		if err == nil && !e.options.Async { // Otherwise the reconcile is over and mg no longer ours.
			e.refresh(mg, r)
		}
		return pending, errors.Wrap(err, "cannot update external resource")
	})
}

// Delete the external resource. Deletion that takes its time is requested once.
func (e *external[MG, R, F]) Delete(ctx context.Context, mg MG) (managed.ExternalDelete, error) {
	if t, running := e.op.Running(); running && t == OperationDelete || e.observed == cloud.StatusDeleting {
		return managed.ExternalDelete{}, nil
	}
	name := meta.GetExternalName(mg)
	return managed.ExternalDelete{}, e.run(ctx, mg, OperationDelete, func(ctx context.Context) (bool, error) {
		pending, err := e.collection.Delete(ctx, name)
		if client.IsNotFound(err) {
			err = nil
		}
		return pending, errors.Wrap(err, "cannot delete external resource")
	})
}

// Disconnect does nothing.
func (e *external[MG, R, F]) Disconnect(_ context.Context) error { return nil }
