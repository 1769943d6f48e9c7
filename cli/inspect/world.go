package inspect

import (
	"context"
	"sync"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/settling"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/internal/cluster"
)

// world is admission.World, read live. What only the webhook knows, such as the rights of other users, is unknown.
type world struct {
	admission.Nothing

	direct *cluster.Direct

	mu sync.Mutex
	// settled are the intent generations at which parents were found to have
	// settled although no annotation records it.
	settled map[parent.Ref]int64
}

var _ admission.World = (*world)(nil)

// Kind returns the kind of objects, as far as Parent has learned it by now.
func (w *world) Kind(gvk schema.GroupVersionKind) identity.Kind { return w.direct.Kinds.Kind(gvk) }

// Parent is read live, whatever is requested: a command has no cache.
func (w *world) Parent(ctx context.Context, ref parent.Ref, _ bool) (*parent.State, error) {
	if err := w.direct.Learn(ctx, ref.GroupVersionKind); err != nil {
		return nil, err
	}
	o, err := w.direct.States.Get(ctx, ref, true)
	if err != nil {
		return nil, err
	}
	w.firstSeen(o.State)
	return o.State, nil
}

// firstSeen records that a parent has settled already, as the webhook does when it first sees one.
func (w *world) firstSeen(s *parent.State) {
	in := settling.Observation{Parent: s, Observed: s.ObservedGeneration, Known: s.HasObserved, Now: clock.Now()}
	if generation, settled := in.FirstSeen(); settled {
		w.mu.Lock()
		w.settled[s.Ref] = generation
		w.mu.Unlock()
	}
}

// Settled returns the intent generation at which a parent was found to have settled; -1 for
// none. The annotation counts beside it.
func (w *world) Settled(ref parent.Ref) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g, ok := w.settled[ref]; ok {
		return g
	}
	return -1
}

// Namespace returns what is declared on it, read live.
func (w *world) Namespace(ctx context.Context, name string, _ bool) (settings.Namespace, error) {
	return w.direct.Namespace(ctx, name)
}

// Managed resources below a composite or Claim. A part that cannot be read is an
// error: a decision about a deletion needs all of them.
func (w *world) Managed(ctx context.Context, root *parent.State) ([]*parent.State, error) {
	out, err := w.direct.Managed(ctx, root)
	if err == nil {
		err = w.direct.Failed()
	}
	return out, err
}

// Lists returns the lists of a kind, where its CRD has been read.
func (w *world) Lists(gvk schema.GroupVersionKind) change.Lists { return w.direct.Kinds.Lists(gvk) }

// Defaults returns the defaults of a kind.
func (w *world) Defaults(gvk schema.GroupVersionKind) *change.Defaults {
	return w.direct.Kinds.Defaults(gvk)
}

// question is what one decision reads of it. What cannot be read for it is reported with the explanation, by Direct.Failed.
type question struct {
	*world
	inspector *Inspector
	ctx       context.Context //nolint:containedctx // Lives as long as the decision.
	// object of the request before it; nil for a creation.
	object *unstructured.Unstructured
}

// Guarded reports whether the webhooks review requests about an object.
func (q question) Guarded(object *parent.State) bool { return q.direct.Reviews(q.ctx, object) }

// MayGuard reports whether the webhooks may review requests about an object.
func (q question) MayGuard(ref parent.Ref) bool { return q.direct.MayReview(q.ctx, ref) }

// Removing reports whether Kausality is being removed.
func (q question) Removing() bool { return q.direct.Scope.Removing() }

// Settings returns the settings of the policy that covers an object.
func (q question) Settings(object parent.Ref, labels map[string]string) settings.Settings {
	out, err := q.direct.Settings(q.ctx, object, labels)
	if err != nil {
		q.direct.Fail(err)
	}
	return out
}

// Initialized returns the condition types that policies name for a kind.
func (q question) Initialized(kind schema.GroupKind) []string {
	out, err := q.direct.Initialized(q.ctx, kind)
	if err != nil {
		q.direct.Fail(err)
	}
	return out
}

// Below finds what is held of an object's children and of theirs, as the warning of the webhook names it (KR-05-61).
func (q question) Below(ctx context.Context, p *parent.State) []admission.Below {
	out, err := q.inspector.heldBelow(ctx, q.object, p)
	if err != nil {
		q.direct.Fail(err)
	}
	return out[:min(len(out), admission.MaxBelow)]
}
