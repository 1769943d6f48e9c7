package webhook

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
	"github.com/kausality-io/function-kausality/notify"
)

// resolver closes the Drifts of child objects that no longer stand, on the
// leader.
type resolver struct {
	cluster  *cluster.Cluster
	manager  manager.Manager
	reporter *notify.Reporter
	log      logr.Logger
}

const (
	// resolveEvery is how often open Drifts are looked at. They are few, and
	// come from a cache.
	resolveEvery = 2 * time.Second
	// keepResolved is how long a resolved Drift stays, and what occurred once
	// can be seen to have occurred before.
	keepResolved = 7 * 24 * time.Hour
)

// Start until the context ends.
func (r *resolver) Start(ctx context.Context) error {
	tick := time.NewTicker(resolveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.all(ctx)
		}
	}
}

func (r *resolver) all(ctx context.Context) {
	list := &v1alpha1.DriftList{}
	if err := r.manager.GetClient().List(ctx, list); err != nil {
		if ctx.Err() == nil {
			r.log.Error(err, "cannot list drifts")
		}
		return
	}
	standing(list)
	for i := range list.Items {
		if err := r.one(ctx, &list.Items[i]); err != nil && ctx.Err() == nil {
			r.log.Error(err, "cannot resolve drift", "drift", list.Items[i].Name)
		}
	}
}

func (r *resolver) one(ctx context.Context, d *v1alpha1.Drift) error {
	if d.Status.Phase == v1alpha1.DriftResolved {
		if d.Status.LastSeen != nil && time.Since(d.Status.LastSeen.Time) > keepResolved {
			return r.manager.GetClient().Delete(ctx, d)
		}
		return nil
	}
	if d.Spec.Relation == v1alpha1.RelationExternal && d.Spec.Operation == "" {
		return nil
	}
	p, err := r.state(ctx, d.Spec.Parent)
	if err != nil {
		return err
	}
	child, err := r.state(ctx, d.Spec.Child)
	if err != nil {
		return err
	}
	if why := admission.Resolved(d, p, child); why != "" {
		return r.reporter.Resolve(ctx, d, why)
	}
	return nil
}

func (r *resolver) state(ctx context.Context, o v1alpha1.ObjectReference) (*parent.State, error) {
	if o.Name == "" {
		return nil, nil //nolint:nilnil // nil is an object that does not exist.
	}
	ref := parent.Ref{GroupVersionKind: schema.FromAPIVersionAndKind(o.APIVersion, o.Kind), Namespace: o.Namespace, Name: o.Name, UID: o.UID}
	found, err := r.cluster.States.Look(ctx, ref)
	if errors.Is(err, admission.ErrNotFound) {
		return nil, nil //nolint:nilnil // nil is an object that does not exist.
	}
	if err != nil {
		return nil, err
	}
	return found.State, nil
}
