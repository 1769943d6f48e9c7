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

// queue hands items to a function, one at a time and in the order they were added, by a controller of
// controller-runtime: a panic is the error of the item that caused it, and the workqueue_* and
// controller_runtime_* metrics have its name. An item is handled once, unless the function adds it again
// by later.
//
// It is safe for concurrent use; items may be added before Start.
type queue[T any] struct {
	controller controller.TypedController[uint64]
	numbers    workqueue.TypedRateLimitingInterface[uint64]
	handle     func(context.Context, T) error
	capacity   int

	mu sync.Mutex
	// last number that was given; numbers are not reused.
	last  uint64
	items map[uint64]T // by number; not those being handled
}

// newQueue returns a queue that holds at most capacity items. An error of handle is logged and counted.
func newQueue[T any](name string, capacity int, log logr.Logger, handle func(context.Context, T) error) (*queue[T], error) {
	q := &queue[T]{handle: handle, capacity: capacity, items: map[uint64]T{}}
	limiter := workqueue.DefaultTypedControllerRateLimiter[uint64]()
	q.numbers = workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[uint64]{Name: name})
	var err error
	q.controller, err = controller.NewTypedUnmanaged(name, controller.TypedOptions[uint64]{
		Reconciler: q, RateLimiter: limiter, Logger: log, SkipNameValidation: new(true),
		NewQueue: func(string, workqueue.TypedRateLimiter[uint64]) workqueue.TypedRateLimitingInterface[uint64] {
			return q.numbers
		},
	})
	return q, err
}

// add an item; false if the queue is full.
func (q *queue[T]) add(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) >= q.capacity {
		return false
	}
	q.last++
	q.items[q.last] = item
	q.numbers.Add(q.last)
	return true
}

// later adds an item that is not handled before the time has passed, also to a full queue: it has been in it.
func (q *queue[T]) later(item T, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	q.items[q.last] = item
	q.numbers.AddAfter(q.last, after)
}

// len is the number of items that wait.
func (q *queue[T]) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Reconcile handles the item with a number. One whose handling panicked comes here again, and is gone.
func (q *queue[T]) Reconcile(ctx context.Context, number uint64) (reconcile.Result, error) {
	q.mu.Lock()
	item, ok := q.items[number]
	delete(q.items, number)
	q.mu.Unlock()
	if !ok {
		return reconcile.Result{}, nil
	}
	if err := q.handle(ctx, item); err != nil && ctx.Err() == nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	return reconcile.Result{}, nil
}

// Start handles items until the context ends.
func (q *queue[T]) Start(ctx context.Context) error { return q.controller.Start(ctx) }
