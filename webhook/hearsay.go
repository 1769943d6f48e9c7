package webhook

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/kausality-io/function-kausality/admission/identity"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
)

// hearsay are the kinds of which this replica sees the status written and no child
// questioned. The API server keeps connections of their own for the two, which may
// lead to two replicas for good: one then knows who writes the status of what it
// does not know to be a parent, and the other the reverse. What they write on the
// object brings them together, and to see that a replica has to watch the kind.
type hearsay struct {
	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]rumour
}

// rumour is the object of a kind that is looked at, when it was heard of, and how
// long after that it is looked at next.
type rumour struct {
	ref  parent.Ref
	at   time.Time
	wait time.Duration
}

const (
	// rumourAge is how old a rumour gets before it is looked into: others have
	// mostly written by then that it is a parent, if they know it. If not, it is looked
	// into twice more, each time three times later.
	rumourAge, rumourOld = followerPatience + time.Second, 9 * (followerPatience + time.Second)
	// rumourEvery is how often an object of a kind becomes one.
	rumourEvery = time.Minute
)

// hears that the status of an object was written. A request waits meanwhile: what
// takes longer comes later.
func (w *writer) hears(ref parent.Ref) {
	if w.cluster.States.Watches(ref.GroupKind()) {
		return // which will show it
	}
	wait := rumourAge
	if w.tracker.knownParent(ref.UID) {
		wait = 0
	}
	h := &w.hearsay
	h.mu.Lock()
	defer h.mu.Unlock()
	if last := h.kinds[ref.GroupVersionKind]; wait > 0 && w.now().Sub(last.at) < rumourEvery {
		return
	}
	if h.kinds == nil {
		h.kinds = map[schema.GroupVersionKind]rumour{}
	}
	maps.DeleteFunc(h.kinds, func(_ schema.GroupVersionKind, r rumour) bool { return w.now().Sub(r.at) >= rumourEvery })
	h.kinds[ref.GroupVersionKind] = rumour{ref, w.now(), wait}
	w.queue.AddAfter(ref, wait)
}

// again an object is to be looked at, and when; 0 for not any more.
func (h *hearsay) again(ref parent.Ref) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.kinds[ref.GroupVersionKind]
	if r.ref != ref || r.wait >= rumourOld {
		return 0
	}
	r.wait *= 3
	h.kinds[ref.GroupVersionKind] = r
	return r.wait
}

// over with an object: whatever queues it next asks nothing of us.
func (h *hearsay) over(ref parent.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.kinds[ref.GroupVersionKind]; r.ref == ref {
		h.kinds[ref.GroupVersionKind] = rumour{at: r.at}
	}
}

// about reports whether an object is what is looked at of its kind.
func (h *hearsay) about(ref parent.Ref) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kinds[ref.GroupVersionKind].ref == ref
}

// listen to the kind of an object that turns out to be a parent: its watch shows
// this and all others to the writer. Where that fails, the next status write is
// another try.
func (w *writer) listen(ctx context.Context, ref parent.Ref) (again time.Duration) {
	if !w.hearsay.about(ref) {
		return 0
	}
	defer func() {
		if again == 0 {
			w.hearsay.over(ref)
		}
	}()
	if w.cluster.States.Watches(ref.GroupKind()) || w.cluster.Unguarded(ref.GroupVersionKind) ||
		w.cluster.Kinds.Kind(ref.GroupVersionKind).Role == parent.RoleManaged { // which is nobody's parent
		return 0
	}
	if !w.tracker.knownParent(ref.UID) {
		o, err := w.cluster.States.Look(ctx, ref)
		if errors.Is(err, admission.ErrNotFound) {
			return 0
		}
		if err != nil {
			w.log.V(1).Info("cannot look at an object whose status was written", "object", identity.Describe(ref), "error", err.Error())
			return 0
		}
		if !w.tracker.parental(o.State) {
			return w.hearsay.again(ref)
		}
	}
	if err := w.cluster.States.Watch(ref.GroupVersionKind); err != nil {
		w.log.Error(err, "cannot watch a kind that has children elsewhere")
	}
	return 0
}
