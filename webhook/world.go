package webhook

import (
	"context"
	"strings"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/settling"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
)

// Field managers of our components. A write is one of ours when both the user
// and the manager are: the same user may also be a person's.
const (
	ManagerWebhook = "kausality-webhook"
	managerPrefix  = "kausality-"
)

// world is admission.World on a cluster.
type world struct {
	cluster    *cluster.Cluster
	tracker    *tracker
	components map[string]bool
	// noticed is told of each object that turns out to be a parent; nil for
	// nobody.
	noticed func(parent.Ref)
	builds  *builds
}

var (
	_ admission.World     = (*world)(nil)
	_ admission.ListTypes = (*world)(nil)
	_ admission.Objects   = (*world)(nil)
	_ admission.Builds    = (*world)(nil)
)

// Lists of a kind.
func (w *world) Lists(gvk schema.GroupVersionKind) change.Lists { return w.cluster.Kinds.Lists(gvk) }

// Object as it is now, read live.
func (w *world) Object(ctx context.Context, ref parent.Ref) (map[string]any, error) {
	return w.cluster.States.Content(ctx, ref)
}

// Build of the controller that asks.
func (w *world) Build(ctx context.Context, req *admission.Request, p *parent.State) (allowance.Build, error) {
	return w.builds.of(ctx, req.User, p)
}

func (w *world) Kind(gvk schema.GroupVersionKind) identity.Kind { return w.cluster.Kinds.Kind(gvk) }

func (w *world) Parent(ctx context.Context, ref parent.Ref, live bool) (*parent.State, error) {
	cached, uid := w.cluster.States.Cached(ref), ref.UID
	if uid == "" && cached != nil {
		uid = cached.UID // a Claim is named without
	}
	if cached == nil { // also where it is read live: the writer knows a parent by its watch
		if err := w.cluster.States.Watch(ref.GroupVersionKind); err != nil {
			return nil, err
		}
	}
	o, err := w.cluster.States.Get(ctx, ref, live || w.tracker.touched(uid))
	if err != nil {
		return nil, err
	}
	if w.tracker.isParent(o.State) && w.noticed != nil {
		w.noticed(o.State.Ref)
	}
	if cached == nil {
		w.firstSeen(o.State)
	}
	return w.tracker.scaled(o.State), nil
}

// firstSeen latches a parent that settled before this replica heard of it, while
// all of them were down above all: the writer learns of it only now, and its
// first child must not pass for that. In memory alone; XRs and Claims, whose
// children decide, are watched before there is any question.
func (w *world) firstSeen(s *parent.State) {
	if s.Role == parent.RoleComposite || s.Role == parent.RoleClaim {
		return
	}
	in := settling.Observation{Parent: s}
	in.Observed, in.Known, in.ObservedSince = w.tracker.observed(s)
	if settled, _ := in.Settles(); settled {
		intent, _ := trace.Intent(s)
		w.tracker.latch(s.UID, intent.Generation)
	}
}

func (w *world) Settled(ref parent.Ref) int64 { return w.tracker.settled(ref) }

func (w *world) StatusWriter(ref parent.Ref, hash string) bool {
	return w.tracker.writesStatus(ref, hash)
}

func (w *world) NamespaceMode(_ context.Context, namespace string) (v1alpha1.Mode, error) {
	return w.cluster.Namespaces.Mode(namespace)
}

func (w *world) Managed(ctx context.Context, root *parent.State) ([]*parent.State, error) {
	return w.cluster.Managed(ctx, root)
}

func (w *world) Component(u subject.User, manager string) bool {
	return w.components[u.Name] && strings.HasPrefix(manager, managerPrefix)
}
