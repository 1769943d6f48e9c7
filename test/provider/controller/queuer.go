package controller

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A queuer requests reconciles after asynchronous operations, as upjet's
// handler.EventHandler does: at once after a success, with growing delays after
// failures. It is a source of the controller, which is how it gets hold of the
// queue. It is safe for concurrent use.
type queuer struct {
	failures workqueue.TypedRateLimiter[reconcile.Request]

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func newQueuer() *queuer {
	return &queuer{failures: workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()}
}

// Start is called by the controller.
func (q *queuer) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = queue
	return nil
}

// requeue a managed resource whose operation ended. There is a queue by then:
// operations come from reconciles, and reconciles from the queue.
func (q *queuer) requeue(name types.NamespacedName, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queue == nil {
		return
	}
	req := reconcile.Request{NamespacedName: name}
	if err == nil {
		q.failures.Forget(req)
		q.queue.Add(req)
		return
	}
	q.queue.AddAfter(req, q.failures.When(req))
}
