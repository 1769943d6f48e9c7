package replay

import (
	"context"
	"fmt"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/settings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
)

// world of recorded objects. What Kausality wrote to them when they were recorded
// is part of them; the allowances are those of the replay.
type world struct {
	admission.Nothing

	objects map[key]*unstructured.Unstructured
	// roles of kinds, derived from their latest objects.
	roles map[schema.GroupKind]parent.Role
}

// key of an object. It has no version: a log may show an object in several versions of
// its kind.
type key struct {
	schema.GroupKind
	namespace, name string
}

var _ admission.World = (*world)(nil)

// newWorld without any objects. It is not safe for concurrent use.
func newWorld() *world {
	return &world{objects: map[key]*unstructured.Unstructured{}, roles: map[schema.GroupKind]parent.Role{}}
}

// keyOf an object by its reference.
func keyOf(ref parent.Ref) key { return key{ref.GroupKind(), ref.Namespace, ref.Name} }

// put what is stored after a change; nil o removes.
func (w *world) put(ref parent.Ref, o *unstructured.Unstructured) {
	if o == nil {
		delete(w.objects, keyOf(ref))
		return
	}
	w.objects[keyOf(ref)] = o
	w.roles[gk(o)] = roleOf(o)
}

// roleOf an object, derived from its fields: a log has no CRDs.
func roleOf(o *unstructured.Unstructured) parent.Role {
	spec, _ := o.Object["spec"].(map[string]any)
	_, policies := spec["managementPolicies"]
	_, modern := spec["crossplane"]
	_, refs := spec["resourceRefs"]
	_, claim := spec["claimRef"]
	_, resource := spec["resourceRef"]
	_, composition := spec["compositionRef"]
	switch {
	case policies:
		return parent.RoleManaged
	case modern, refs, claim:
		return parent.RoleComposite
	case resource && composition:
		return parent.RoleClaim
	case parent.MayBeInstance(o):
		return parent.RoleInstance
	}
	return parent.RoleNone
}

// Kind as far as its objects show it.
func (w *world) Kind(gvk schema.GroupVersionKind) identity.Kind {
	role := w.roles[gvk.GroupKind()]
	return identity.Kind{Role: role, ManagementPolicies: role == parent.RoleManaged}
}

// object in its latest recorded state; nil where the log does not show it. The namespace
// of a reference to an owner is that of the child, also for cluster-scoped owners.
func (w *world) object(ref parent.Ref) *unstructured.Unstructured {
	if o := w.objects[keyOf(ref)]; o != nil {
		return o
	}
	ref.Namespace = "" // a cluster-scoped owner
	return w.objects[keyOf(ref)]
}

// Parent as the log left it.
func (w *world) Parent(_ context.Context, ref parent.Ref, _ bool) (*parent.State, error) {
	o := w.object(ref)
	if o == nil || ref.UID != "" && o.GetUID() != ref.UID {
		return nil, fmt.Errorf("%s: %w", identity.Describe(ref), admission.ErrNotFound)
	}
	return parent.Sum(o, w.roles[gk(o)]), nil
}

// Object as the log left it.
func (w *world) Object(_ context.Context, ref parent.Ref) (map[string]any, error) {
	if o := w.object(ref); o != nil {
		return o.Object, nil
	}
	return nil, nil //nolint:nilnil // nil is an object that does not exist.
}

// Settled is known from the recorded annotations only.
func (*world) Settled(parent.Ref) int64 { return -1 }

// Namespace declares nothing: everything is replayed as in enforce.
func (*world) Namespace(context.Context, string, bool) (settings.Namespace, error) {
	return settings.Namespace{}, nil
}

// Managed objects below a composite, as far as they were recorded.
func (w *world) Managed(_ context.Context, root *parent.State) ([]*parent.State, error) {
	var out []*parent.State
	for _, ref := range root.Children {
		o := w.object(ref)
		if o == nil {
			continue
		}
		s := parent.Sum(o, w.roles[gk(o)])
		if s.Role == parent.RoleManaged {
			out = append(out, s)
		}
	}
	return out, nil
}

// Component recognises Kausality's own writes by their ServiceAccounts.
func (*world) Component(u subject.User, _ string) bool {
	return u.Name == "system:serviceaccount:kausality-system:kausality-webhook" || u.Name == "system:serviceaccount:kausality-system:kausality-gate"
}
