package external

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"
)

// An OperationType is what an asynchronous operation does.
type OperationType string

// The types of operations, by the names that upjet gives them.
const (
	OperationCreate OperationType = "create"
	OperationUpdate OperationType = "update"
	OperationDelete OperationType = "delete"
)

// An Operation is the last asynchronous operation on one managed resource. The
// zero value is one that never ran. It is safe for concurrent use.
type Operation struct {
	mu      sync.Mutex
	kind    OperationType
	started time.Time // zero: not started, or cleared
	ended   bool
	err     error
}

// Start the operation, unless one is going on. It returns the type and the
// start of the one that goes on now.
func (o *Operation) Start(t OperationType) (current OperationType, since time.Time, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.started.IsZero() && !o.ended {
		return o.kind, o.started, false
	}
	o.kind, o.started, o.ended = t, time.Now(), false
	return t, o.started, true
}

// End the operation.
func (o *Operation) End(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended, o.err = true, err
}

// Running is the type of the operation that goes on; ok is false if none does.
func (o *Operation) Running() (t OperationType, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kind, !o.started.IsZero() && !o.ended
}

// Err is the error of the last operation that ended, until it is cleared.
func (o *Operation) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Clear forgets the operation, and its error unless that is to be kept for the
// next reconcile.
func (o *Operation) Clear(keepError bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kind, o.started, o.ended = "", time.Time{}, false
	if !keepError {
		o.err = nil
	}
}

// A Tracker knows the last operation of every managed resource. It is safe for
// concurrent use. Operations live in memory: after a restart they are unknown,
// as with upjet.
type Tracker struct {
	mu         sync.Mutex
	operations map[types.UID]*Operation
}

// NewTracker returns a Tracker that knows no operation.
func NewTracker() *Tracker {
	return &Tracker{operations: map[types.UID]*Operation{}}
}

// Operation of the managed resource.
func (t *Tracker) Operation(mg resource.Managed) *Operation {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.operations[mg.GetUID()]
	if !ok {
		o = &Operation{}
		t.operations[mg.GetUID()] = o
	}
	return o
}

// Finalizer wraps another one, and forgets the operation of a managed resource
// whose finalizer is removed.
func (t *Tracker) Finalizer(f resource.Finalizer) resource.Finalizer {
	return resource.FinalizerFns{
		AddFinalizerFn: f.AddFinalizer,
		RemoveFinalizerFn: func(ctx context.Context, o resource.Object) error {
			t.mu.Lock()
			delete(t.operations, o.GetUID())
			t.mu.Unlock()
			return f.RemoveFinalizer(ctx, o)
		},
	}
}
