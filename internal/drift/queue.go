package drift

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queue hands items to a function, by a controller of controller-runtime: a panic is the error of the item
// that caused it, and the workqueue_* and controller_runtime_* metrics have its name. The items of one key are
// handled one at a time, in the order they were added; those of several keys by several workers. An item is
// handled once, unless the function adds it again by later.
//
// It is safe for concurrent use; items may be added before Start.
type queue[T any] struct {
	controller controller.TypedController[string]
	keys       workqueue.TypedRateLimitingInterface[string]
	handle     func(context.Context, T) error
	capacity   int

	mu      sync.Mutex
	items   map[string][]T // by key, oldest first; not those being handled
	waiting int            // items of all keys
}

// newQueue returns a queue that holds at most capacity items. An error of handle is logged and counted.
func newQueue[T any](name string, capacity, workers int, log logr.Logger, handle func(context.Context, T) error) (*queue[T], error) {
	q := &queue[T]{handle: handle, capacity: capacity, items: map[string][]T{}}
	limiter := workqueue.DefaultTypedControllerRateLimiter[string]()
	q.keys = workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[string]{Name: name})
	var err error
	q.controller, err = controller.NewTypedUnmanaged(name, controller.TypedOptions[string]{
		Reconciler: q, RateLimiter: limiter, Logger: log, MaxConcurrentReconciles: workers, SkipNameValidation: new(true),
		NewQueue: func(string, workqueue.TypedRateLimiter[string]) workqueue.TypedRateLimitingInterface[string] {
			return q.keys
		},
	})
	return q, err
}

// add an item with a key; false if the queue is full.
func (q *queue[T]) add(key string, item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting >= q.capacity {
		return false
	}
	q.append(key, item)
	q.keys.Add(key)
	return true
}

// later adds an item that is handled when the time has passed, or before the next one of its key; also to a
// full queue: it has been in it.
func (q *queue[T]) later(key string, item T, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.append(key, item)
	q.keys.AddAfter(key, after)
}

// append an item; the caller holds the lock.
func (q *queue[T]) append(key string, item T) {
	q.items[key] = append(q.items[key], item)
	q.waiting++
}

// len returns the number of items that wait.
func (q *queue[T]) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// take the oldest item of a key, and report whether there are more.
func (q *queue[T]) take(key string) (item T, ok, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items[key]
	if len(items) == 0 {
		return item, false, false
	}
	q.waiting--
	if len(items) == 1 {
		delete(q.items, key)
		return items[0], true, false
	}
	q.items[key] = items[1:]
	return items[0], true, true
}

// Reconcile handles the oldest item of a key. An item is removed also if its handling panics.
func (q *queue[T]) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	item, ok, more := q.take(key)
	if !ok {
		return reconcile.Result{}, nil
	}
	if more {
		q.keys.Add(key)
	}
	if err := q.handle(ctx, item); err != nil && ctx.Err() == nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	return reconcile.Result{}, nil
}

// Start handles items until the context ends.
func (q *queue[T]) Start(ctx context.Context) error { return q.controller.Start(ctx) }
