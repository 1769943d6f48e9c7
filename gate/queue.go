package gate

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
)

const (
	reconcileTimeout = 15 * time.Second
	// retryFirst and retryMost bound the exponential backoff of a failing object.
	retryFirst = 50 * time.Millisecond
	retryMost  = 30 * time.Second
)

// queue leads from event handlers, which run from the start of the process on, to
// a controller, which runs while this process is the leader. It is the
// controller's only source. Before the controller starts, what is added is
// dropped: Controller.Start adds every object. It is safe for concurrent use.
type queue struct {
	started chan struct{}
	to      workqueue.TypedRateLimitingInterface[parent.Ref]
}

// newQueue returns a queue that drops everything until its controller starts.
func newQueue() *queue { return &queue{started: make(chan struct{})} }

// Start is called by the controller, once.
func (q *queue) Start(_ context.Context, to workqueue.TypedRateLimitingInterface[parent.Ref]) error {
	q.to = to
	close(q.started)
	return nil
}

// add an object. Its UID does not matter.
func (q *queue) add(ref parent.Ref) {
	select {
	case <-q.started:
		q.to.Add(withoutUID(ref))
	default:
	}
}

// addAfter adds an object later.
func (q *queue) addAfter(ref parent.Ref, d time.Duration) {
	select {
	case <-q.started:
		q.to.AddAfter(withoutUID(ref), d)
	default:
	}
}

// awaitStart reports whether the controller started before the context ended.
func (q *queue) awaitStart(ctx context.Context) bool {
	select {
	case <-q.started:
		return true
	case <-ctx.Done():
		return false
	}
}

// withoutUID returns the key of an object in queues and maps: it stays when the object is
// re-created under its name.
func withoutUID(ref parent.Ref) parent.Ref { ref.UID = ""; return ref }

// newQueued returns a controller of objects that come from a queue. A panic in f is that object's
// error, which is retried with backoff and does not affect others (KR-13-02). The
// work queue is a plain one: its order and its delays are those that the figures
// in docs/performance.md were measured with.
func newQueued(name string, concurrency int, q *queue, log logr.Logger, f reconcile.TypedFunc[parent.Ref]) (controller.TypedController[parent.Ref], error) {
	ctl, err := controller.NewTypedUnmanaged(name, controller.TypedOptions[parent.Ref]{
		Reconciler:              f,
		MaxConcurrentReconciles: concurrency,
		ReconciliationTimeout:   reconcileTimeout,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[parent.Ref](retryFirst, retryMost),
		UsePriorityQueue:        new(false),
		RecoverPanic:            new(true),
		SkipNameValidation:      new(true), // tests make several controllers in one process
		LogConstructor: func(ref *parent.Ref) logr.Logger {
			if ref == nil {
				return log
			}
			return log.WithValues("object", identity.Describe(*ref))
		},
	})
	if err != nil {
		return nil, err
	}
	return ctl, ctl.Watch(q)
}
