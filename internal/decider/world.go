package decider

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/decider/builds"
	"github.com/kausality-io/function-kausality/internal/decider/permissions"
	"github.com/kausality-io/function-kausality/internal/decider/settler"
)

// world is admission.World on a cluster.
type world struct {
	*permissions.Permissions
	below

	cluster     *cluster.Cluster
	fresh       *cluster.Fresh
	memory      *settler.Memory
	settler     *settler.Settler
	components  map[string]bool
	builds      *builds.Builds
	controllers subject.Eligible
	// policies by which one request is decided; nil for those of the watch.
	policies *settings.Set
}

var _ admission.World = (*world)(nil)

// MayControl reports whether a user may be a controller, by the flags.
func (w *world) MayControl(u subject.User, role parent.Role) bool {
	return w.controllers.Has(u, role.Crossplane())
}

// Guarded reports whether the webhooks review requests about an object.
func (w *world) Guarded(object *parent.State) bool { return w.cluster.Reviews(object) }

// MayGuard reports whether the webhooks may review requests about an object.
func (w *world) MayGuard(ref parent.Ref) bool { return w.cluster.MayReview(ref) }

// Settings of the policy that covers an object.
func (w *world) Settings(object parent.Ref, labels map[string]string) settings.Settings {
	return w.fresh.Settings(w.inForce(), object, labels)
}

// inForce returns the Kausality policies.
func (w *world) inForce() settings.Set {
	if w.policies != nil {
		return *w.policies
	}
	return w.cluster.Policies.Set()
}

// Removing reports whether Kausality is being removed.
func (w *world) Removing() bool { return w.cluster.Scope.Removing() }

// Initialized returns the condition types that policies name for a kind.
func (w *world) Initialized(kind schema.GroupKind) []string {
	return w.inForce().Initialized(kind.Group, kind.Kind)
}

// Lists of a kind.
func (w *world) Lists(gvk schema.GroupVersionKind) change.Lists { return w.cluster.Kinds.Lists(gvk) }

// Defaults of a kind.
func (w *world) Defaults(gvk schema.GroupVersionKind) *change.Defaults {
	return w.cluster.Kinds.Defaults(gvk)
}

// Object as it is now, read live.
func (w *world) Object(ctx context.Context, ref parent.Ref) (map[string]any, error) {
	return w.cluster.States.Content(ctx, ref)
}

// Build of the controller that makes a request.
func (w *world) Build(ctx context.Context, req *admission.Request, p *parent.State) (allowance.Build, error) {
	if p == nil {
		return w.builds.Of(ctx, req.User, nil, "")
	}
	return w.builds.Of(ctx, req.User, p, w.Kind(p.GroupVersionKind).Graph)
}

// sources are the kinds with annotations that name the author of a revision.
var sources = map[v1alpha1.CauseKind]schema.GroupVersionKind{
	v1alpha1.CauseComposition: {Group: "apiextensions.crossplane.io", Version: "v1", Kind: "Composition"},
	v1alpha1.CauseFunction:    {Group: "pkg.crossplane.io", Version: "v1", Kind: "Function"},
	v1alpha1.CauseGraph:       authorship.GraphKind,
}

// Author of a revision that is a cause. It is a claim unless the annotations that name it are protected (KR-07-11).
func (w *world) Author(ctx context.Context, c v1alpha1.HopCause) (v1alpha1.HopCause, error) {
	found, err := w.builds.Author(ctx, c)
	if err != nil {
		return c, err
	}
	traced := found.User != "" && !found.Copied && w.cluster.Reviews(&parent.State{Ref: parent.Ref{GroupVersionKind: sources[c.Kind]}})
	return found.Cause(c, traced), nil
}

// Kind of objects, from discovery; it never waits.
func (w *world) Kind(gvk schema.GroupVersionKind) identity.Kind { return w.cluster.Kinds.Kind(gvk) }

// Parent from the watch of its kind, or live: where the core requires it, where this
// replica has just admitted a write of it, where the watch does not have it (KR-05-20), and
// where watches are late (KR-13-24).
//
// Only a composite names its parent, the Claim, without a UID. The API server accepts no such owner, and it must
// not be a way to read parents by their names (KR-13-23).
func (w *world) Parent(ctx context.Context, ref parent.Ref, live bool) (*parent.State, error) {
	if ref.UID == "" && w.Kind(ref.GroupVersionKind).Role != parent.RoleClaim {
		return nil, admission.ErrNotFound
	}
	cached, uid := w.cluster.States.Cached(ref), ref.UID
	if uid == "" && cached != nil {
		uid = cached.UID // a composite names its Claim without a UID
	}
	if cached == nil { // also if it is read live: the settler sees a parent only in its watch
		if err := w.cluster.States.Watch(ref.GroupVersionKind); err != nil {
			return nil, err
		}
	}
	o, err := w.fresh.Get(ctx, ref, live || w.memory.Touched(uid, cached))
	if err != nil {
		return nil, err
	}
	w.settler.NoteParent(o.State)
	if cached == nil {
		w.memory.FirstSeen(o.State)
	}
	return w.memory.FillState(o.State), nil
}

// Settled returns what this replica has seen; the leader writes it to the parent later.
func (w *world) Settled(ref parent.Ref) int64 { return w.memory.Settled(ref) }

// StatusWriter is what this replica has seen of status writes that were stored (KR-13-20).
func (w *world) StatusWriter(ref parent.Ref, id string) bool {
	return w.settler.StatusWriter(ref, id)
}

// Namespace from the watch of Namespaces, or live, as Parent.
func (w *world) Namespace(ctx context.Context, name string, live bool) (settings.Namespace, error) {
	return w.fresh.Namespace(ctx, name, live)
}

// Managed resources below an object, read live.
func (w *world) Managed(ctx context.Context, root *parent.State) ([]*parent.State, error) {
	return w.cluster.Managed(ctx, root)
}

// Component reports whether a component of Kausality makes a write, by user and field manager, since a
// person may use the same user.
func (w *world) Component(u subject.User, manager string) bool {
	return w.components[u.Name] && strings.HasPrefix(manager, v1alpha1.ManagerPrefix)
}
