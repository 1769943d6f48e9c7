package drift

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

const (
	// successorCapacity bounds the queue; the reports of further Drifts that are gone are lost, and counted.
	successorCapacity = 1000
	// successorAgain is when a Drift is tried again of which it is not known yet whether it is over.
	successorAgain = 5 * time.Second
)

// errNotOver reports that the object of a Drift exists. Either the Drift is restored, or its owner is about to be deleted.
var errNotOver = errors.New("it is not over")

// succeed Drifts that are deleted with their owners or Namespaces while reports of them are owed, until the context ends: a resolved one in
// HomeNamespace, which has no owner, takes the place of each (KR-10-20). A successor has no successor: it is deleted once it is old.
func (d *Deliverer) succeed(ctx context.Context) error {
	var q *queue[deleted]
	q, err := newQueue("drift-successor", successorCapacity, 1, d.Log, func(ctx context.Context, g deleted) error {
		err := d.succeedOne(ctx, g.Drift)
		if err != nil && ctx.Err() == nil && clock.Since(g.at) < retryFor {
			q.later(g.Name, g, successorAgain)
			return nil
		}
		if errors.Is(err, errNotOver) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	watch, err := d.Cache.GetInformer(ctx, &v1alpha1.Drift{})
	if err != nil {
		return fmt.Errorf("cannot watch drifts: %w", err)
	}
	registered, err := watch.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(o any) {
		if dr, ok := informer.Last[*v1alpha1.Drift](o); ok && (d.Mine == nil || d.Mine(dr)) && d.owes(dr) && !q.add(dr.Name, deleted{dr, clock.Now()}) {
			dropped.Inc()
		}
	}})
	if err != nil {
		return fmt.Errorf("cannot watch drifts: %w", err)
	}
	defer func() { _ = watch.RemoveEventHandler(registered) }()
	return q.Start(ctx)
}

// owes reports whether a receiver is to be sent a report of a Drift once the Drift is resolved.
func (d *Deliverer) owes(dr *v1alpha1.Drift) bool {
	if dr.Status.Phase == "" || len(dr.OwnerReferences) == 0 && dr.Namespace == HomeNamespace {
		return false
	}
	status := dr.Status
	status.Phase = v1alpha1.DriftResolved
	return slices.ContainsFunc(d.senders, func(s *Sender) bool { return len(owed(&status, s.Name)) > 0 })
}

// succeedOne Drift, unless it exists again.
func (d *Deliverer) succeedOne(ctx context.Context, g *v1alpha1.Drift) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	err := d.Client.Get(ctx, client.ObjectKeyFromObject(g), &v1alpha1.Drift{})
	if err == nil {
		return nil // it was restored, or occurred again
	}
	if !kerrors.IsNotFound(err) {
		return fmt.Errorf("cannot read a drift: %w", err)
	}
	why, err := d.end(ctx, g)
	if err != nil {
		return err
	}
	status := *g.Status.DeepCopy()
	if status.Phase != v1alpha1.DriftResolved {
		status.Phase, status.Resolution = v1alpha1.DriftResolved, why
	}
	out := &v1alpha1.Drift{Spec: *g.Spec.DeepCopy()}
	out.Name, out.Namespace = g.Name, HomeNamespace
	if err := d.Client.Create(ctx, out); kerrors.IsAlreadyExists(err) {
		err = d.Client.Get(ctx, client.ObjectKeyFromObject(out), out)
		if err != nil || out.Status.Phase != "" {
			return err
		}
	} else if err != nil {
		return fmt.Errorf("cannot create the successor of a drift: %w", err)
	}
	before := out.DeepCopy()
	out.Status = status
	if err := d.Client.Status().Patch(ctx, out, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("cannot write the status of the successor of a drift: %w", err)
	}
	return nil
}

// end of what a Drift that was deleted is about, as a clause; errNotOver where it exists.
func (d *Deliverer) end(ctx context.Context, g *v1alpha1.Drift) (string, error) {
	for _, o := range []struct {
		v1alpha1.ObjectReference
		why string
	}{{g.Spec.Parent, "the parent was deleted"}, {g.Spec.Child, "the child was deleted"}} {
		if o.Name == "" {
			continue
		}
		found, err := d.Objects.Look(ctx, identity.Ref(o.ObjectReference))
		switch {
		case errors.Is(err, admission.ErrNotFound):
			return o.why, nil
		case err != nil:
			return "", err
		case o.UID != "" && found.UID != o.UID, found.Deleting():
			return o.why, nil
		}
	}
	return "", errNotOver
}
