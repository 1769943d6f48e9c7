package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	reads    *rate.Limiter
	// from is where the next round begins, so that all get their turn.
	from int
	// told of each Drift that cannot be resolved: why, once. Of those in the list.
	told map[types.UID]string
}

const (
	// resolveEvery is how often open Drifts are looked at. They are few, and
	// come from a cache.
	resolveEvery = 2 * time.Second
	// resolverReads per second are the live reads of children whose kind is not
	// watched; the others wait for the next round.
	resolverReads = 10
	// maxRemovals in one round.
	maxRemovals = 100
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
	list := &v1alpha1.DriftList{} // of the cache's own: only to be read
	if err := r.manager.GetClient().List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		if ctx.Err() == nil {
			r.log.Error(err, "cannot list drifts")
		}
		return
	}
	standing(list)
	r.forget(list)
	remove, supersede := bounds(list.Items, time.Now())
	for _, d := range remove[:min(len(remove), maxRemovals)] {
		r.report(d, r.manager.GetClient().Delete(ctx, d))
	}
	for _, d := range supersede[:min(len(supersede), maxRemovals)] {
		r.report(d, r.reporter.Resolve(ctx, d, fmt.Sprintf("%d newer differences of the same child are open", maxOpenPerChild)))
	}
	n := len(list.Items)
	for i := range n {
		at := (r.from + i) % n
		err := r.one(ctx, &list.Items[at])
		if errors.Is(err, errLater) {
			r.from = at
			return
		}
		r.report(&list.Items[at], err)
	}
}

// errLater: the reads of this round are used up.
var errLater = errors.New("too many live reads in one round")

// report what went wrong with a Drift. It is tried again with every round, and told
// again where it is something else.
func (r *resolver) report(d *v1alpha1.Drift, err error) {
	if client.IgnoreNotFound(err) == nil {
		delete(r.told, d.UID)
		return
	}
	if errors.Is(err, context.Canceled) || r.told[d.UID] == err.Error() {
		return
	}
	if r.told == nil {
		r.told = map[types.UID]string{}
	}
	r.told[d.UID] = err.Error()
	r.log.Error(err, "cannot resolve drift; it is tried every "+resolveEvery.String(), "drift", d.Name)
}

// forget what was told of Drifts that are no more.
func (r *resolver) forget(list *v1alpha1.DriftList) {
	if len(r.told) == 0 {
		return
	}
	known := make(map[types.UID]bool, len(list.Items))
	for i := range list.Items {
		known[list.Items[i].UID] = true
	}
	maps.DeleteFunc(r.told, func(uid types.UID, _ string) bool { return !known[uid] })
}

func (r *resolver) one(ctx context.Context, d *v1alpha1.Drift) error {
	if d.Status.Phase == v1alpha1.DriftResolved {
		return nil
	}
	if r.cluster.LetGo(schema.FromAPIVersionAndKind(d.Spec.Child.APIVersion, d.Spec.Child.Kind)) {
		return r.reporter.Resolve(ctx, d, "its kind is no longer guarded")
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
	if r.cluster.States.Cached(ref) == nil && !r.reads.Allow() {
		return nil, errLater
	}
	found, err := r.cluster.States.Look(ctx, ref)
	if errors.Is(err, admission.ErrNotFound) {
		return nil, nil //nolint:nilnil // nil is an object that does not exist.
	}
	if err != nil {
		return nil, err
	}
	return found.State, nil
}
