package external

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
	"github.com/crossplane/crossplane-runtime/v2/pkg/meta"

	"github.com/kausality-io/function-kausality/test/provider/cloud"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// callbackTimeout is how long the report of an operation may take.
const callbackTimeout = 30 * time.Second

// A request to the cloud. Pending means that it was accepted and is going on.
type request func(ctx context.Context) (pending bool, err error)

// run a request: within this reconcile, unless the provider is asynchronous.
// What the cloud leaves pending becomes an asynchronous operation; a pending
// deletion does not, because Observe can see it.
func (e *external[MG, R, F]) run(ctx context.Context, mg MG, t OperationType, req request) error {
	name := meta.GetExternalName(mg)
	if e.options.Async {
		return e.start(mg, t, func(ctx context.Context) error {
			pending, err := req(ctx)
			if err != nil || !pending {
				return err
			}
			return e.wait(ctx, t, name)
		})
	}
	pending, err := req(ctx)
	if err != nil || !pending || t == OperationDelete {
		return err
	}
	return e.start(mg, t, func(ctx context.Context) error { return e.wait(ctx, t, name) })
}

// start an operation that goes on after the reconcile. The error is that of the
// operation before, see the package's documentation.
func (e *external[MG, R, F]) start(mg MG, t OperationType, do func(context.Context) error) error {
	current, since, ok := e.op.Start(t)
	if !ok {
		return errors.Errorf("%s operation that started at %s is still running", current, since)
	}
	name := types.NamespacedName{Namespace: mg.GetNamespace(), Name: mg.GetName()}
	go e.operate(name, t, do)
	return e.op.Err()
}

func (e *external[MG, R, F]) operate(name types.NamespacedName, t OperationType, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(e.base, e.options.Timeout)
	defer cancel()
	err := errors.Wrapf(withoutPanic(ctx, do), "async %s failed", t)
	e.op.End(err)
	e.log.Debug("Async operation ended", "operation", t, "name", name, "error", err)

	report, cancelReport := context.WithTimeout(e.base, callbackTimeout)
	defer cancelReport()
	if err := e.callback(report, name, t, err); err != nil {
		e.log.Info("Async callback failed", "operation", t, "name", name, "error", err)
	}
}

// wait until the cloud has finished an operation. Requests to a cloud that cannot
// be reached are repeated.
func (e *external[MG, R, F]) wait(ctx context.Context, t OperationType, name string) error {
	tick := time.NewTicker(e.options.CheckInterval)
	defer tick.Stop()
	for {
		r, err := e.collection.Get(ctx, name)
		switch {
		case client.IsNotFound(err) && t == OperationDelete:
			return nil
		case client.IsNotFound(err):
			return errors.Errorf("%s is gone", name)
		case err == nil && r.Info().Status == cloud.StatusFailed:
			return errors.New(r.Info().Message)
		case err == nil && !r.Info().Status.Busy():
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Wrapf(ctx.Err(), "cannot wait any longer for %s", name)
		case <-tick.C:
		}
	}
}

// withoutPanic turns a panic into an error: the operation has to end, or its
// managed resource would never be reconciled again.
func withoutPanic(ctx context.Context, do func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("recovered from panic: %v", r)
		}
	}()
	return do(ctx)
}
