package policystore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// debounce is how long changes are collected before the Set is built again: many
// policies that are applied at once make one Set.
const debounce = 50 * time.Millisecond

// Store of the policies in force. It is safe for concurrent use.
type Store struct {
	client dynamic.Interface
	log    logr.Logger
	now    func() time.Time

	// informers by resource.
	informers map[string]*watched
	set       atomic.Pointer[allowance.Set]
	// changed has an element while the Set is to be built again.
	changed chan struct{}
	// kinds of the cluster, and recheck has an element while effects on them are to be reported; kinds is nil where
	// they are not reported.
	kinds   allowance.Kinds
	recheck chan struct{}
	// rebuilt is called with each new Set; nil for nothing.
	rebuilt func()
	// built: there is a Set of all policies; it stays true.
	built atomic.Bool
	// leads: this replica writes the status of policies; it stays true, since a
	// process that loses its lease ends.
	leads atomic.Bool
	// live policies, past the watches.
	live live

	mu sync.Mutex
	// compiled policies by their UIDs, and uses that are not written yet.
	compiled map[types.UID]*Compiled
	uses     map[use]int64
}

// watched kind of policies.
type watched struct {
	cache.SharedIndexInformer
	// missing: its CRD is not installed, so that no policy of the kind exists.
	missing atomic.Bool
}

// New Store of the policies of some resources; nothing is read before Start.
func New(client dynamic.Interface, log logr.Logger, resources ...string) (*Store, error) {
	s := &Store{client: client, log: log, now: clock.Now, informers: map[string]*watched{},
		changed: make(chan struct{}, 1), recheck: make(chan struct{}, 1), compiled: map[types.UID]*Compiled{}, uses: map[use]int64{}}
	s.live.set = informer.NewRecent(func(ctx context.Context) (*allowance.Set, error) { return readLive(ctx, s) })
	for _, r := range resources {
		shared := dynamicinformer.NewFilteredDynamicInformer(client, gvr(r), metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
		w := &watched{SharedIndexInformer: shared}
		if err := s.listen(w); err != nil {
			return nil, fmt.Errorf("cannot watch %s: %w", r, err)
		}
		s.informers[r] = w
	}
	return s, nil
}

// gvr of a resource of policies, by its plural.
func gvr(resource string) schema.GroupVersionResource {
	return v1alpha1.GroupVersion.WithResource(resource)
}

// listen to an informer that has not started.
func (s *Store) listen(w *watched) error {
	err := w.SetTransform(func(o any) (any, error) {
		if u, ok := o.(*unstructured.Unstructured); ok {
			u.SetManagedFields(nil)
		}
		return o, nil
	})
	if err != nil {
		return err
	}
	err = w.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if kerrors.IsNotFound(err) { // the CRD may be installed later
			if !w.missing.Swap(true) {
				s.wake()
			}
			return
		}
		informer.WatchFailed(ctx, r, err)
	})
	if err != nil {
		return err
	}
	_, err = w.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.wake() },
		UpdateFunc: func(any, any) { s.wake() },
		DeleteFunc: func(any) { s.wake() },
	})
	return err
}

// wake has the Set built again.
func (s *Store) wake() {
	select {
	case s.changed <- struct{}{}:
	default: // requested already
	}
}

// OnChange calls f after the policies in force changed, or their claims. Call it before Start; f must not block.
func (s *Store) OnChange(f func()) { s.rebuilt = f }

// Policies in force; nil before they are read.
func (s *Store) Policies() *allowance.Set { return s.set.Load() }

// HasSynced reports whether the policies were read and compiled. A kind without
// an installed CRD has no policies.
func (s *Store) HasSynced() bool { return s.built.Load() }

// synced reports whether all kinds with an installed CRD were read.
func (s *Store) synced() bool {
	for _, w := range s.informers {
		if !w.HasSynced() && !w.missing.Load() {
			return false
		}
	}
	return true
}

// NeedLeaderElection is false: every replica decides.
func (*Store) NeedLeaderElection() bool { return false }

// Lead from now on: this replica writes the status of policies.
func (s *Store) Lead() {
	s.leads.Store(true)
	s.wake()
}

// Start the watches. It returns when the context has ended and the watches have
// stopped.
func (s *Store) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, w := range s.informers {
		wg.Go(func() { w.RunWithContext(ctx) })
	}
	wg.Go(func() { s.untilSynced(ctx) })
	wg.Go(func() { s.flushUses(ctx) })
	wg.Go(func() { s.reportEffects(ctx) })
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.changed:
			s.pause(ctx, debounce)
			s.rebuild(ctx)
		}
	}
	wg.Wait()
	return nil
}

// untilSynced has the first Set built where there are no policies and therefore
// no events.
func (s *Store) untilSynced(ctx context.Context) {
	for ctx.Err() == nil && !s.built.Load() {
		s.wake()
		s.pause(ctx, debounce)
	}
}

// pause until the time has passed or the context has ended.
func (s *Store) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// rebuild the Set from the watch caches. Only what changed is compiled. There is
// no Set before all kinds were read: some of the policies would decide
// differently from all of them.
func (s *Store) rebuild(ctx context.Context) {
	if !s.synced() {
		return
	}
	s.mu.Lock()
	all := s.all()
	seen := s.compileAll(all)
	var stale []*unstructured.Unstructured
	for _, o := range all {
		if it := seen[o.GetUID()]; it != nil && len(stale) <= maxReports && s.leads.Load() && outdated(o, it) {
			stale = append(stale, o)
		}
	}
	s.compiled = seen
	s.set.Store(NewSet(maps.Values(seen)))
	s.mu.Unlock()
	s.built.Store(true)
	if s.rebuilt != nil {
		s.rebuilt()
	}
	for i, o := range stale {
		if i == maxReports {
			s.wake() // the others after the next Set
			break
		}
		s.report(ctx, o, seen[o.GetUID()])
	}
	s.Recheck()
}

// compileAll compiles policies, by their UIDs, without those that cannot be read. The caller holds s.mu.
func (s *Store) compileAll(all []*unstructured.Unstructured) map[types.UID]*Compiled {
	seen := map[types.UID]*Compiled{}
	for _, o := range all {
		it, err := s.compile(o)
		if err != nil {
			s.log.Error(err, "cannot read a policy", "kind", o.GetKind(), "namespace", o.GetNamespace(), "name", o.GetName())
			continue
		}
		seen[o.GetUID()] = it
	}
	return seen
}

// maxReports is how many statuses are written before the Set is built again:
// thousands of them must not delay a policy.
const maxReports = 50

// all policies, in the order of kind, namespace and name.
func (s *Store) all() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, r := range slices.Sorted(maps.Keys(s.informers)) {
		store := s.informers[r].GetStore()
		keys := store.ListKeys()
		slices.Sort(keys)
		for _, k := range keys {
			if o, ok, err := store.GetByKey(k); err == nil && ok {
				if u, ok := o.(*unstructured.Unstructured); ok {
					out = append(out, u)
				}
			}
		}
	}
	return out
}
