package webhook

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
)

// Field managers of our components. A write is one of ours when both the user
// and the manager are: the same user may also be a person's.
const (
	ManagerWebhook = "kausality-webhook"
	ManagerGate    = "kausality-gate"
	managerPrefix  = "kausality-"
)

// world is admission.World on a cluster.
type world struct {
	cluster    *cluster.Cluster
	tracker    *tracker
	components map[string]bool
}

var _ admission.World = (*world)(nil)

func (w *world) Kind(gvk schema.GroupVersionKind) admission.Kind { return w.cluster.Kinds.Kind(gvk) }

func (w *world) Parent(ctx context.Context, ref parent.Ref, live bool) (*parent.State, error) {
	o, err := w.cluster.States.Get(ctx, ref, live || w.tracker.touched(ref))
	if err != nil {
		return nil, err
	}
	w.tracker.isParent(o.State)
	return w.tracker.scaled(o.State), nil
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
