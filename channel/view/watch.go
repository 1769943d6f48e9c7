package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

const (
	// maxWatches of Namespaces; where the user may list more of them, and not the whole cluster, Drifts are read again instead.
	maxWatches = 50
	// doubtFor is how long after the error of a watch Drifts are read in its place: as long as watches wait at most before they are repeated.
	doubtFor = time.Minute
	// syncFor bounds how long the first watch is waited for; Drifts are read in its place then.
	syncFor = 10 * time.Second
)

// watches of Drifts, in the whole cluster or in Namespaces, while a view is live. They keep the open ones.
type watches struct {
	client dynamic.Interface
	// changed has a value once something has changed.
	changed chan struct{}

	mu sync.Mutex
	of map[string]*watched
}

// watched Drifts of a Namespace, or of all.
type watched struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	// failed is when the watch last had an error; zero for never.
	failed time.Time
}

func newWatches(client dynamic.Interface) *watches {
	return &watches{client: client, changed: make(chan struct{}, 1), of: map[string]*watched{}}
}

// watch watches Namespaces, "" for all, until ctx ends, and no others.
func (w *watches) watch(ctx context.Context, spaces []string) error {
	if len(spaces) > maxWatches {
		spaces = nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for ns, one := range w.of {
		if !slices.Contains(spaces, ns) {
			one.stop()
			delete(w.of, ns)
		}
	}
	for _, ns := range spaces {
		if w.of[ns] != nil {
			continue
		}
		one, err := w.begin(ns)
		if err != nil {
			return err
		}
		var ends context.Context
		ends, one.stop = context.WithCancel(ctx)
		w.of[ns] = one
		go one.informer.RunWithContext(ends)
	}
	return nil
}

// begin begins to watch a Namespace.
func (w *watches) begin(ns string) (*watched, error) {
	one := &watched{informer: cache.NewSharedIndexInformer(driftsOf(w.client, ns), &v1alpha1.Drift{}, 0, cache.Indexers{})}
	failed := func(context.Context, *cache.Reflector, error) {
		w.mu.Lock()
		one.failed = clock.Now()
		w.mu.Unlock()
		w.mark()
	}
	_, err := one.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.mark() }, UpdateFunc: func(any, any) { w.mark() }, DeleteFunc: func(any) { w.mark() },
	})
	if err = errors.Join(err, one.informer.SetTransform(slim), one.informer.SetWatchErrorHandlerWithContext(failed)); err != nil {
		return nil, fmt.Errorf("cannot watch drifts: %w", err)
	}
	return one, nil
}

// mark marks that something has changed.
func (w *watches) mark() {
	select {
	case w.changed <- struct{}{}:
	default: // it is marked already
	}
}

// begun waits, for a bounded time, until each watch has listed its Drifts, or has failed.
func (w *watches) begun(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, syncFor)
	defer cancel()
	cache.WaitForCacheSync(ctx.Done(), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, one := range w.of {
			if one.failed.IsZero() && !one.informer.HasSynced() {
				return false
			}
		}
		return true
	})
}

// Synced reports whether all Drifts that are shown are watched.
func (r *reader) Synced() bool {
	w := r.lister.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.of {
		if !one.informer.HasSynced() {
			return false
		}
	}
	return len(w.of) > 0
}

// open Drifts of a Namespace, or of all, as they are watched; not ok where they are not, or where the watch is behind.
func (w *watches) open(ns string) (out []v1alpha1.Drift, ok bool) {
	w.mu.Lock()
	one := w.of[ns]
	behind := one == nil || !one.failed.IsZero() && clock.Since(one.failed) < doubtFor
	w.mu.Unlock()
	if behind || !one.informer.HasSynced() {
		return nil, false
	}
	var sorted []*v1alpha1.Drift // Drifts are large: what is sorted are pointers
	for _, o := range one.informer.GetStore().List() {
		if d, is := o.(*v1alpha1.Drift); is && channel.Open(d) {
			sorted = append(sorted, d)
		}
	}
	slices.SortFunc(sorted, inspect.ByUrgency)
	out = make([]v1alpha1.Drift, len(sorted))
	for n, d := range sorted {
		out[n] = *d
	}
	return out, true
}

// slim returns a Drift without what no view shows; of a resolved one, only what it is is kept.
func slim(o any) (any, error) {
	d, ok := o.(*v1alpha1.Drift)
	if !ok {
		return o, nil
	}
	if !openSlim(d) {
		return &v1alpha1.Drift{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion},
			Status:     v1alpha1.DriftStatus{Phase: d.Status.Phase},
		}, nil
	}
	return d, nil
}

// openSlim reports whether a Drift is open. It removes from it what no view shows.
func openSlim(d *v1alpha1.Drift) bool {
	d.ManagedFields, d.Annotations, d.Status.Deliveries = nil, nil, nil
	return channel.Open(d)
}

// driftsOf returns the Drifts of a Namespace, or of all. They are typed as soon as they are read: a page of objects is kept no longer than that takes.
func driftsOf(client dynamic.Interface, ns string) cache.ListerWatcher {
	c := client.Resource(inspect.DriftResource).Namespace(ns)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.ResourceVersion == "0" {
				o.ResourceVersion = "" // 0 is answered from the API server's watch cache, which ignores the limit
			}
			list, err := c.List(ctx, o)
			if err != nil {
				return nil, err
			}
			out := &v1alpha1.DriftList{ListMeta: metav1.ListMeta{
				ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue(), RemainingItemCount: list.GetRemainingItemCount(),
			}}
			for n := range list.Items {
				d, err := inspect.DriftOf(&list.Items[n])
				if err != nil {
					return nil, err
				}
				out.Items = append(out.Items, *d)
			}
			return out, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			in, err := c.Watch(ctx, o)
			if err != nil {
				return nil, err
			}
			return watch.Filter(in, typed), nil
		},
	}
}

// typed event of a watch. An object that is no Drift is an error of the watch, which begins again.
func typed(e watch.Event) (watch.Event, bool) {
	u, ok := e.Object.(*unstructured.Unstructured)
	if !ok || e.Type == watch.Error {
		return e, true
	}
	d, err := inspect.DriftOf(u)
	if err != nil {
		return watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}}, true
	}
	e.Object = d
	return e, true
}
