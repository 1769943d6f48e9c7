package states

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
)

const (
	// maxFilling watches read their first list at a time: lists are whole
	// objects, and all of them at once are many times what is kept.
	maxFilling = 4
	// fillTurn bounds how long a watch that cannot be filled is waited for.
	fillTurn = 5 * time.Second
	// unreadableAfter is how long a kind's first list may take until nothing waits
	// for it any more.
	unreadableAfter = 15 * time.Second
	// maxKinds bounds the number of kinds that are watched.
	maxKinds = 2000
)

// ending is why a watch is over.
type ending int

const (
	// endChanged: the kind has become another, and is watched again.
	endChanged ending = iota
	// endGone: the kind's CRD is gone, and its objects with it.
	endGone
	// endUnneeded: the objects exist, and this process does not need them.
	endUnneeded
)

// watched is the watch of a kind.
type watched struct {
	info     kinds.Info
	informer cache.SharedIndexInformer
	over     chan struct{} // closed when it is to end
	why      ending        // once over is closed
	// requested: there was a request for an object of the kind, as about a parent.
	requested atomic.Bool
	// since is when its turn came to be filled, in nanoseconds; 0 before.
	since atomic.Int64
}

// Run starts the watches, those that were requested already and all that will
// be, and ends them with the context.
func (s *States) Run(ctx context.Context) {
	var wg sync.WaitGroup
	turns := make(chan struct{}, maxFilling)
	start := func(w *watched) { wg.Go(func() { s.run(ctx, w, turns) }) }
	s.mu.Lock()
	s.start = start
	for _, w := range s.watched {
		start(w)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.start = func(*watched) {}
	s.mu.Unlock()
	wg.Wait()
}

// Run a watch until the context or the kind ends.
func (s *States) run(ctx context.Context, w *watched, turns chan struct{}) {
	wctx, cancel := w.until(ctx)
	defer cancel()
	select {
	case turns <- struct{}{}:
	case <-wctx.Done():
		return
	}
	w.since.Store(time.Now().UnixNano())
	go func() {
		fctx, cancel := context.WithTimeout(wctx, fillTurn)
		defer cancel()
		cache.WaitForCacheSync(fctx.Done(), w.informer.HasSynced)
		<-turns
	}()
	w.informer.RunWithContext(wctx)
	if ctx.Err() == nil {
		s.ended(w)
	}
}

// ended reports the objects of a watch that is over: they went with their kind,
// perhaps unseen, or are known no more, unless they came under watch again.
func (s *States) ended(w *watched) {
	informer.Each("objects", summaries(w), func(o *Object) {
		switch {
		case w.why == endGone:
			s.call(o, nil)
		case w.why == endUnneeded && s.of(w.info.GVK) == nil:
			for _, f := range s.onUnwatch {
				f(o)
			}
		}
	})
}

// until ctx or the watch is over. Call cancel in the end.
func (w *watched) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-w.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Watch a kind that is requested, from now on, until its CRD is gone or nothing of
// its group is guarded any more. One that may not be watched is not tried again for
// a while: its objects are read one by one.
func (s *States) Watch(gvk schema.GroupVersionKind) error {
	if w := s.of(gvk); w != nil {
		w.requested.Store(true)
		return nil
	}
	if s.refusedLately(gvk) {
		return nil
	}
	w, err := s.guard(gvk)
	if err == nil {
		w.requested.Store(true)
	}
	return err
}

// Guard watches a kind because it is guarded, until nothing of its group is.
func (s *States) Guard(gvk schema.GroupVersionKind) error {
	_, err := s.guard(gvk)
	return err
}

// guard watches a kind, and returns the watch, which may exist already.
func (s *States) guard(gvk schema.GroupVersionKind) (*watched, error) {
	if w := s.of(gvk); w != nil {
		return w, nil
	}
	if n := len(s.all()); n >= maxKinds {
		return nil, fmt.Errorf("cannot watch %s: %d kinds are watched already", gvk, n)
	}
	info, err := s.kinds.Get(gvk)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watched[gvk]; w != nil {
		return w, nil
	}
	w, err := s.newWatch(info)
	if err != nil {
		return nil, fmt.Errorf("cannot watch %s: %w", gvk, err)
	}
	s.watched[gvk] = w
	if s.start != nil {
		s.start(w)
	}
	return w, nil
}

// Watches reports whether a kind is watched in any of its versions, be it that the
// Watch has yet to begin.
func (s *States) Watches(kind schema.GroupKind) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for gvk := range s.watched {
		if gvk.GroupKind() == kind {
			return true
		}
	}
	return false
}

// Kinds that are watched, in no order.
func (s *States) Kinds() []schema.GroupVersionKind {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.watched))
}

// all watches as they are now.
func (s *States) all() []*watched {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*watched, 0, len(s.watched))
	for _, w := range s.watched {
		out = append(out, w)
	}
	return out
}

// of a kind; nil where it is not watched.
func (s *States) of(gvk schema.GroupVersionKind) *watched {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.watched[gvk]
}

// newWatch of a kind; it begins when run is called.
func (s *States) newWatch(info kinds.Info) (*watched, error) {
	w := &watched{info: info, over: make(chan struct{})}
	w.informer = informer.New(s.client, info.GVR, "", func(o *unstructured.Unstructured) any { return s.Sum(o) })
	if err := w.informer.AddIndexers(cache.Indexers{parentIndex: indexParent}); err != nil {
		return nil, err
	}
	if err := w.informer.SetWatchErrorHandlerWithContext(s.failed(w)); err != nil {
		return nil, err
	}
	_, err := w.informer.AddEventHandler(informer.Handler("objects", cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { s.call(nil, object(o)) },
		UpdateFunc: func(a, b any) { s.call(object(a), object(b)) },
		DeleteFunc: func(o any) {
			if last := object(o); last != nil {
				s.call(last, nil)
			}
		},
	}))
	return w, err
}

// end the watch of a kind, if there is one. Where the kind has become another, what
// is kept of its objects was summed up for the kind it was.
func (s *States) end(gvk schema.GroupVersionKind, why ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watched[gvk]; w != nil {
		s.endLocked(w, why)
	}
}

// endLocked ends a watch; the caller holds the lock. What it kept is released with it.
func (s *States) endLocked(w *watched, why ending) {
	w.why = why
	close(w.over)
	delete(s.watched, w.info.GVK)
}

// Call the listeners with a change; one of the two is nil for a new or a deleted object.
func (s *States) call(old, new *Object) {
	for _, f := range s.onChange {
		f(old, new)
	}
}

// object of an event; nil for one that could not be summarized.
func object(o any) *Object {
	out, _ := informer.Last[*Object](o)
	return out
}

// Synced waits until the watches that were requested are filled, or cannot be.
func (s *States) Synced(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), s.HasSynced)
}

// HasSynced reports whether the watches that were requested are filled. One that
// cannot be filled (its CRD's conversion is broken, or we may not read it) does
// not count after a while: its objects are read one by one, and all others must
// not wait for it.
func (s *States) HasSynced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, w := range s.watched {
		if !w.informer.HasSynced() && !w.unreadable() {
			return false
		}
	}
	return true
}

// unreadable reports whether the first list takes so long that nothing waits for it.
func (w *watched) unreadable() bool {
	since := w.since.Load()
	return since != 0 && time.Since(time.Unix(0, since)) > unreadableAfter
}
