package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
	"github.com/kausality-io/function-kausality/drift"
)

// resolver closes the Drifts of child objects that no longer stand, on the
// leader.
type resolver struct {
	cluster  *cluster.Cluster
	manager  manager.Manager
	reporter *drift.Reporter
	log      logr.Logger
	reads    *rate.Limiter
	// from is the name of the Drift where the next round begins, so that all get
	// their turn; empty for the first.
	from types.NamespacedName
	// told of each Drift that cannot be resolved: why, once. Of those in the list.
	told map[types.UID]string
}

const (
	// resolveEvery is how often open Drifts are looked at. They are few, and
	// come from a cache.
	resolveEvery = 2 * time.Second
	// resolverReads per second are the live reads of children whose kind is not
	// watched, as many as that makes in one round; the others wait for the next one.
	resolverReads = 10
	// maxRemovals in one round.
	maxRemovals = 100
)

// trimmed is what a cache keeps of a Drift: of a resolved one only what bounds them
// asks for, since they are by far the most.
func trimmed(o any) (any, error) {
	d, ok := o.(*v1alpha1.Drift)
	if !ok {
		return o, nil // what a watch that was interrupted knows of one that is gone
	}
	d.ManagedFields = nil
	if d.Status.Phase != v1alpha1.DriftResolved {
		return d, nil
	}
	return &v1alpha1.Drift{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion, CreationTimestamp: d.CreationTimestamp},
		Status:     v1alpha1.DriftStatus{Phase: d.Status.Phase, LastSeen: d.Status.LastSeen},
	}, nil
}

// warm the cache of Drifts, also of who does not lead: who is elected then need
// not list them first, and takes no more memory than before.
func (r *resolver) warm(ctx context.Context) {
	if _, err := r.manager.GetCache().GetInformer(ctx, &v1alpha1.Drift{}); err != nil && ctx.Err() == nil {
		r.log.Error(err, "cannot watch drifts; they are listed by who is elected")
	}
}

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
		err := r.manager.GetClient().Delete(ctx, d, client.Preconditions{UID: &d.UID, ResourceVersion: &d.ResourceVersion})
		if kerrors.IsConflict(err) {
			err = nil // it occurred again, or is another one
		}
		r.report(d, err)
	}
	for _, d := range supersede[:min(len(supersede), maxRemovals)] {
		r.report(d, r.reporter.Resolve(ctx, d, fmt.Sprintf("%d newer differences of the same child are open", maxOpenPerChild)))
	}
	r.from = r.round(inTurn(list, r.from), func(d *v1alpha1.Drift) error { return r.one(ctx, d) })
}

// round of the open Drifts; those that want a live read when there are no more in
// this one wait, those that want none do not. It returns the first that waits.
func (r *resolver) round(drifts []*v1alpha1.Drift, one func(*v1alpha1.Drift) error) (first types.NamespacedName) {
	for _, d := range drifts {
		err := one(d)
		if !errors.Is(err, errLater) {
			r.report(d, err)
		} else if first.Name == "" {
			first = nameOf(d)
		}
	}
	return first
}

// inTurn are the open Drifts of a list in the order of their names, from one on and around. The
// list of a cache has no order.
func inTurn(list *v1alpha1.DriftList, from types.NamespacedName) []*v1alpha1.Drift {
	var out []*v1alpha1.Drift
	for i := range list.Items {
		if d := &list.Items[i]; d.Status.Phase != v1alpha1.DriftResolved {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.Drift) int { return compare(nameOf(a), nameOf(b)) })
	i, _ := slices.BinarySearchFunc(out, from, func(d *v1alpha1.Drift, n types.NamespacedName) int { return compare(nameOf(d), n) })
	return slices.Concat(out[i:], out[:i])
}

func nameOf(d *v1alpha1.Drift) types.NamespacedName {
	return types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
}

func compare(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
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
	why, err := admission.Resolved(d, p, func() (*parent.State, error) { return r.state(ctx, d.Spec.Child) })
	if err != nil || why == "" {
		return err
	}
	return r.reporter.Resolve(ctx, d, why)
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
