package gate

import (
	"cmp"
	"context"
	"sync"

	"golang.org/x/time/rate"

	"github.com/kausality-io/function-kausality/admission/parent"
)

// turns order the masking of unmasked objects, at a limited rate (KR-08-18): Namespaces
// take turns, and the objects of a Namespace are masked in the order in which they came.
// No worker waits for a turn. A user who pauses and resumes hundreds of managed resources
// delays only those in the same Namespace (KR-13-47). It is safe for concurrent use.
type turns struct {
	// wake has an element where something waits.
	wake chan struct{}

	mu sync.Mutex
	// waiting objects by tenant, and the tenants in the order of their next turns.
	waiting map[string][]parent.Ref
	order   []string
	// known objects: true for an object that has its turn, false for one that waits.
	known map[parent.Ref]bool
}

func newTurns() *turns {
	return &turns{wake: make(chan struct{}, 1), waiting: map[string][]parent.Ref{}, known: map[parent.Ref]bool{}}
}

// take the turn of an object, and report whether it had one. Otherwise the object waits from now on.
// The tenant is its Namespace; cluster-scoped objects have that of their parent.
func (t *turns) take(ref, owner parent.Ref) bool {
	ref = withoutUID(ref)
	t.mu.Lock()
	defer t.mu.Unlock()
	turn, known := t.known[ref]
	switch {
	case turn:
		delete(t.known, ref)
		return true
	case known:
		return false
	}
	tenant := cmp.Or(ref.Namespace, owner.Kind+"/"+owner.Name)
	t.known[ref] = false
	if len(t.waiting[tenant]) == 0 {
		t.order = append(t.order, tenant)
	}
	t.waiting[tenant] = append(t.waiting[tenant], ref)
	select {
	case t.wake <- struct{}{}:
	default:
	}
	return false
}

// drop the unused turn of an object.
func (t *turns) drop(ref parent.Ref) {
	ref = withoutUID(ref)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[ref] {
		delete(t.known, ref)
	}
}

// next gives the next object its turn, and returns it; false if no object waits.
func (t *turns) next() (parent.Ref, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		return parent.Ref{}, false
	}
	tenant := t.order[0]
	ref := t.waiting[tenant][0]
	t.order, t.waiting[tenant] = t.order[1:], t.waiting[tenant][1:]
	if len(t.waiting[tenant]) > 0 {
		t.order = append(t.order, tenant)
	} else {
		delete(t.waiting, tenant)
	}
	t.known[ref] = true
	return ref, true
}

// run until the context ends: reconcile each object when it is its turn.
func (t *turns) run(ctx context.Context, limit *rate.Limiter, reconcile func(parent.Ref)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		}
		for {
			if limit.Wait(ctx) != nil {
				return // the context ends
			}
			ref, ok := t.next()
			if !ok {
				break
			}
			reconcile(ref)
		}
	}
}
