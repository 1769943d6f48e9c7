package decider

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/internal/policystore"
)

// current returns the Evaluator of requests in a Namespace, "" for none. While the watches are late, it evaluates by the policies as they are
// stored, which are read at most once in five seconds for all requests (KR-13-74). An error means that they cannot be read.
func current(ctx context.Context, w *world, e *admission.Evaluator, store *policystore.Store, namespace string) (*admission.Evaluator, error) {
	if !w.fresh.Late() {
		return e, nil
	}
	var of settings.Set
	var set *allowance.Set
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		of, err = w.cluster.Policies.Live(ctx)
		return err
	})
	group.Go(func() (err error) {
		set, err = store.Live(ctx)
		return err
	})
	group.Go(func() error { // its labels select policies
		if namespace == "" {
			return nil
		}
		_, err := w.fresh.Namespace(ctx, namespace, false)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("cannot decide while the watches are late: %w", err)
	}
	late := *w
	late.policies = &of
	return &admission.Evaluator{World: &late, Options: e.Options, Policies: set}, nil
}

// Evaluators returns the Evaluator of a request in a Namespace, "" for none, by the policies as they are now.
func (dr *Decider) Evaluators(ctx context.Context, namespace string) (*admission.Evaluator, error) {
	if dr.Current == nil {
		return dr.Evaluator, nil
	}
	return dr.Current(ctx, namespace)
}

// policies in force, for what is decided beside requests; nil before they are read, and where they cannot be.
func (dr *Decider) policies() *allowance.Set {
	e, err := dr.Evaluators(context.Background(), "")
	if err != nil {
		dr.Log.Error(err, "cannot read the policies")
		return nil
	}
	return e.Policies.Policies()
}
