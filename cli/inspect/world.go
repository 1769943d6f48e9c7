package inspect

import (
	"context"
	"sync"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/settling"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/cluster"
)

// world is admission.World, read live.
type world struct {
	direct *cluster.Direct

	mu sync.Mutex
	// settled are the intent generations at which parents were found to have
	// settled although no annotation records it.
	settled map[parent.Ref]int64
}

var _ admission.World = (*world)(nil)

// Kind of objects, as far as Parent has learned it by now.
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
	in := settling.Observation{Parent: s, Observed: s.ObservedGeneration, Known: s.HasObserved}
	if generation, settled := in.FirstSeen(); settled {
		w.mu.Lock()
		w.settled[s.Ref] = generation
		w.mu.Unlock()
	}
}

// Settled is the intent generation at which a parent was found to have settled; -1 for
// none. The annotation counts beside it.
func (w *world) Settled(ref parent.Ref) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g, ok := w.settled[ref]; ok {
		return g
	}
	return -1
}

// StatusWriter is known to the webhook only: its annotation has it moments later.
func (w *world) StatusWriter(parent.Ref, string) bool { return false }

// Namespace is what is declared on it, read live.
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

// Component is false: the user of the command is not a component of Kausality.
func (w *world) Component(subject.User, string) bool { return false }

// Lists of a kind, where its CRD has been read.
func (w *world) Lists(gvk schema.GroupVersionKind) change.Lists { return w.direct.Kinds.Lists(gvk) }

// Defaults of a kind.
func (w *world) Defaults(gvk schema.GroupVersionKind) *change.Defaults {
	return w.direct.Kinds.Defaults(gvk)
}

// Object is nil: explanations see the State alone.
func (w *world) Object(context.Context, parent.Ref) (map[string]any, error) { return nil, nil }

// Build of a controller is unknown: nothing here makes its request.
func (w *world) Build(context.Context, *admission.Request, *parent.State) (allowance.Build, error) {
	return allowance.Build{}, nil
}
