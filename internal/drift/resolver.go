package drift

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

const (
	// resolveEvery is the time between two rounds over the open Drifts. They are few, and cached.
	resolveEvery = 2 * time.Second
	// readsPerSecond are the live reads of children of kinds that are not watched. One round has as many as
	// that allows; the Drifts that need more wait for the next round.
	readsPerSecond = 10
	// completeAfter is how old a Drift without a phase is before the leader writes its status. The replica
	// that created it may still be about to.
	completeAfter = 20 * time.Second
	// maxRemovals in one round.
	maxRemovals = 100
)

// Objects are the objects that Drifts are about. states.States implements it.
type Objects interface {
	// Cached object; nil if it is not in a watch cache.
	Cached(ref parent.Ref) *states.Object
	// Look returns an object, from a watch cache or read live; admission.ErrNotFound if it does not exist.
	Look(ctx context.Context, ref parent.Ref) (*states.Object, error)
}

// Resolver resolves Drifts that are over and deletes resolved ones beyond their bounds (KR-10-05,
// KR-10-06). It runs on the leader.
type Resolver struct {
	// Client lists Drifts from a cache, whose transform is Trim, and deletes.
	Client  client.Client
	Objects Objects
	// Unguarded reports whether a kind is no longer guarded.
	Unguarded func(schema.GroupVersionKind) bool
	Reporter  *Reporter
	Log       logr.Logger
	// Function is what is known of changes that the composition function holds; nil where
	// none are recorded.
	Function *Function
	// Graph returns the graph that defines a kind, as it is cached; nil for none.
	Graph func(schema.GroupVersionKind) *parent.State

	reads *rate.Limiter
	// nextHeld is the composite that the next round begins to record with; empty for the first.
	nextHeld types.UID
	// looked is when composed resources that are not watched were read, by their composite.
	looked map[types.UID]looked
	// next is the Drift that the next round begins with, so that each has its turn; empty for the first.
	next types.NamespacedName
	// logged is the last error of each Drift that cannot be resolved, and of each composite of
	// which cannot be recorded what is held.
	logged map[types.UID]string
}

// AddResolver adds a Resolver to a manager, and the watch of Drifts that fills a Memory.
// author is that of a cause, nil for unknown.
func AddResolver(mgr manager.Manager, c *cluster.Cluster, r *Reporter, m *Memory,
	author func(context.Context, v1alpha1.HopCause) (v1alpha1.HopCause, error), log logr.Logger) error {
	resolver := &Resolver{
		Client: mgr.GetClient(), Objects: c.States, Unguarded: c.Unguarded, Reporter: r, Log: log, Function: functionOf(c, author),
		Graph: func(gvk schema.GroupVersionKind) *parent.State { return graphOf(c, gvk) },
	}
	restored, err := newRestorer(c.States, r, m, mgr.Elected(), log)
	if err != nil {
		return err
	}
	return errors.Join(mgr.Add(resolver), mgr.Add(restored), mgr.Add(cluster.Everywhere(func(ctx context.Context) error {
		warmUp(ctx, mgr.GetCache(), m, log)
		return nil
	})))
}

// graphOf a kind; nil where kro did not define it, and where the graph is not cached.
func graphOf(c *cluster.Cluster, gvk schema.GroupVersionKind) *parent.State {
	name := c.Kinds.Kind(gvk).Graph
	if name == "" {
		return nil
	}
	o := c.States.Cached(parent.Ref{GroupVersionKind: authorship.GraphKind, Name: name})
	if o == nil {
		return nil
	}
	return o.State
}

// warmupWithin is how long a replica waits for the Drifts before it answers without them: an API server without the CRD,
// or a missing permission, must not be an outage.
const warmupWithin = 30 * time.Second

// warmUp fills the cache of Drifts on every replica, so that the next leader need not list them first,
// and takes no more memory than before; and the Memory, which every replica decides with. It returns once the watch of Drifts began.
func warmUp(ctx context.Context, drifts cache.Cache, m *Memory, log logr.Logger) {
	late := time.AfterFunc(warmupWithin, m.begin)
	defer late.Stop()
	informer, err := drifts.GetInformer(ctx, &v1alpha1.Drift{})
	if err == nil {
		var filled toolscache.ResourceEventHandlerRegistration
		if filled, err = informer.AddEventHandler(m); err == nil && toolscache.WaitForCacheSync(ctx.Done(), filled.HasSynced) {
			m.begin()
		}
	}
	if err != nil && ctx.Err() == nil {
		log.Error(err, "cannot watch drifts; the leader lists them once it is elected, and what was held before this replica started is not known to it")
	}
}

// Start rounds until the context ends.
func (r *Resolver) Start(ctx context.Context) error {
	_ = wait.PollUntilContextCancel(ctx, resolveEvery, false, func(ctx context.Context) (bool, error) { // it ends with the context alone
		if err := recovered(func() error { return r.round(ctx) }); err != nil && ctx.Err() == nil {
			r.Log.Error(err, "cannot resolve drifts")
		}
		return false, nil
	})
	return nil
}

// round over all Drifts.
func (r *Resolver) round(ctx context.Context) error {
	list := &v1alpha1.DriftList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil { // the items are the cache's, and only read
		return fmt.Errorf("cannot list drifts: %w", err)
	}
	countOpen(list)
	holding := r.holding()
	r.forget(list, holding)
	remove, supersede := beyondBounds(list.Items, clock.Now())
	for _, d := range remove[:min(len(remove), maxRemovals)] {
		err := r.Client.Delete(ctx, d, client.Preconditions{UID: &d.UID, ResourceVersion: &d.ResourceVersion})
		if kerrors.IsConflict(err) {
			err = nil // it occurred again, or was re-created
		}
		r.log(d, err)
	}
	for _, s := range supersede[:min(len(supersede), maxRemovals)] {
		if newest, whole := s.holder(); newest != nil {
			if err := r.Reporter.Hold(ctx, newest, whole); err != nil {
				r.log(newest, err)
				continue
			}
		}
		for _, d := range s.drifts[:min(len(s.drifts), maxRemovals)] {
			r.log(d, r.Reporter.Resolve(ctx, d, fmt.Sprintf("%d newer differences of the same child are open", maxOpenPerChild), nil))
		}
	}
	if r.reads == nil {
		r.reads = rate.NewLimiter(readsPerSecond, readsPerSecond*int(resolveEvery/time.Second))
	}
	r.recordHeld(ctx, holding, list)
	r.next = r.each(inTurn(list, r.next), func(d *v1alpha1.Drift) error {
		if written, err := r.completeAuthors(ctx, d); written || err != nil {
			return err
		}
		return r.resolve(ctx, d)
	})
	return nil
}

// each calls resolve for each of the Drifts. It returns the first one that waits for a live read.
func (r *Resolver) each(drifts []*v1alpha1.Drift, resolve func(*v1alpha1.Drift) error) (first types.NamespacedName) {
	for _, d := range drifts {
		err := recovered(func() error { return resolve(d) })
		if !errors.Is(err, errNoReads) {
			r.log(d, err)
		} else if first.Name == "" {
			first = client.ObjectKeyFromObject(d)
		}
	}
	return first
}

// panicked is the error of a panic.
type panicked struct {
	value any
	stack string
}

// Error is the same for the same panic, so that it is logged once.
func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// recovered calls f; a panic in it is its error. One Drift that cannot be handled must not end the
// process, and with it every replica in turn.
func recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{value: p, stack: string(debug.Stack())}
		}
	}()
	return f()
}

// inTurn returns the open Drifts of a list, which has no order, in the order of their names, beginning
// with one of them and ending with the one before it.
func inTurn(list *v1alpha1.DriftList, from types.NamespacedName) []*v1alpha1.Drift {
	var out []*v1alpha1.Drift
	for i := range list.Items {
		if d := &list.Items[i]; d.Status.Phase != v1alpha1.DriftResolved {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.Drift) int {
		return compare(client.ObjectKeyFromObject(a), client.ObjectKeyFromObject(b))
	})
	i, _ := slices.BinarySearchFunc(out, from, func(d *v1alpha1.Drift, n types.NamespacedName) int {
		return compare(client.ObjectKeyFromObject(d), n)
	})
	return slices.Concat(out[i:], out[:i])
}

// compare names, for an order that is the same in every round.
func compare(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// errNoReads reports that the live reads of this round are used up.
var errNoReads = errors.New("too many live reads in one round")

// log why a Drift cannot be resolved: once, and again if the reason changes. It is tried in every round.
func (r *Resolver) log(d *v1alpha1.Drift, err error) {
	r.logOnce(d.UID, err, "cannot resolve drift; it is tried every "+resolveEvery.String(), "drift", d.Name)
}

// logOnce logs the error of an object with a message, unless it is the last one that was logged of it.
func (r *Resolver) logOnce(uid types.UID, err error, message string, values ...any) {
	if client.IgnoreNotFound(err) == nil {
		delete(r.logged, uid)
		return
	}
	if errors.Is(err, context.Canceled) || r.logged[uid] == err.Error() {
		return
	}
	if r.logged == nil {
		r.logged = map[types.UID]string{}
	}
	r.logged[uid] = err.Error()
	log := r.Log.WithValues(values...)
	if p := (*panicked)(nil); errors.As(err, &p) {
		log = log.WithValues("stack", p.stack)
	}
	log.Error(err, message)
}

// forget what is known of Drifts that no longer exist, and of composites of which nothing is held.
func (r *Resolver) forget(list *v1alpha1.DriftList, holding []*parent.State) {
	if len(r.logged) == 0 && len(r.looked) == 0 {
		return
	}
	known := make(map[types.UID]bool, len(list.Items)+len(holding))
	for i := range list.Items {
		known[list.Items[i].UID] = true
	}
	for _, p := range holding {
		known[p.UID] = true
	}
	maps.DeleteFunc(r.logged, func(uid types.UID, _ string) bool { return !known[uid] })
	maps.DeleteFunc(r.looked, func(uid types.UID, _ looked) bool { return !known[uid] })
}

// resolve a Drift that is over. External drift is resolved by the gate, which sees the difference
// itself, while its object exists; a refused deletion (Operation) is resolved here.
func (r *Resolver) resolve(ctx context.Context, d *v1alpha1.Drift) error {
	if r.Unguarded(schema.FromAPIVersionAndKind(d.Spec.Child.APIVersion, d.Spec.Child.Kind)) {
		return r.Reporter.Resolve(ctx, d, "its kind is no longer guarded", nil)
	}
	if OfGate(d) {
		return r.resolveExternal(ctx, d)
	}
	p, err := r.state(ctx, identity.Ref(d.Spec.Parent))
	if err != nil {
		return err
	}
	if d.Status.Holder == v1alpha1.HolderFunction {
		return r.resolveHeld(ctx, d, p)
	}
	var graph *parent.State
	if p != nil && r.Graph != nil {
		graph = r.Graph(p.GroupVersionKind)
	}
	why, err := settling.Resolved(d, p, graph, clock.Now(), func() (*parent.State, error) { return r.state(ctx, identity.Ref(d.Spec.Child)) })
	if err != nil {
		return err
	}
	if why == settling.WhyApproved {
		child, err := r.state(ctx, identity.Ref(d.Spec.Child))
		if err != nil {
			return err
		}
		return r.Reporter.Resolve(ctx, d, why, settling.ApprovalOf(d, child, p))
	}
	if why != "" {
		return r.Reporter.Resolve(ctx, d, why, nil)
	}
	return r.complete(ctx, d, p)
}

// OfGate reports whether the gate records a Drift: that an external resource differs.
func OfGate(d *v1alpha1.Drift) bool {
	return d.Spec.Relation == v1alpha1.RelationExternal && d.Spec.Operation == ""
}

// resolveExternal resolves an external drift of an object that is gone, since the gate does not see the object any more.
func (r *Resolver) resolveExternal(ctx context.Context, d *v1alpha1.Drift) error {
	child, err := r.state(ctx, identity.Ref(d.Spec.Child))
	if err != nil {
		return err
	}
	if child == nil {
		return r.Reporter.Resolve(ctx, d, "the child was deleted", nil)
	}
	if o := r.Objects.Cached(identity.Ref(d.Spec.Parent)); d.Status.Phase != "" && !d.Status.Snoozed {
		if o == nil { // it is not read for that alone
			return nil
		}
		return r.rule(ctx, d, o.State)
	}
	p, err := r.state(ctx, identity.Ref(d.Spec.Parent))
	if err != nil {
		return err
	}
	return r.complete(ctx, d, p)
}

// complete a Drift that has no phase for longer than its recording takes; p is its parent, nil for none
// (KR-10-11).
func (r *Resolver) complete(ctx context.Context, d *v1alpha1.Drift, p *parent.State) error {
	if d.Status.Phase != "" {
		return r.rule(ctx, d, p)
	}
	if clock.Since(d.CreationTimestamp.Time) < completeAfter {
		return nil
	}
	snoozed := p != nil && approval.Parse(p.Annotations).Snoozed(clock.Now())
	return r.Reporter.Complete(ctx, d, snoozed)
}

// state of an object; nil if it does not exist.
func (r *Resolver) state(ctx context.Context, ref parent.Ref) (*parent.State, error) {
	if ref.Name == "" {
		return nil, nil //nolint:nilnil // See above.
	}
	if r.Objects.Cached(ref) == nil && !r.reads.Allow() {
		return nil, errNoReads
	}
	found, err := r.Objects.Look(ctx, ref)
	if errors.Is(err, admission.ErrNotFound) {
		return nil, nil //nolint:nilnil // See above.
	}
	if err != nil {
		return nil, err
	}
	return found.State, nil
}
