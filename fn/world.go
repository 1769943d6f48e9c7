package fn

import (
	"context"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/fn/ssa"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// world is what the core reads: the one request, nothing beyond.
type world struct {
	composite *composite
	// object is the composite as it is.
	object map[string]any
	// fingerprint of what composes it; "" where it does not matter.
	fingerprint string
	kinds       map[schema.GroupVersionKind]identity.Kind
}

var _ admission.World = &world{}

// worldOf a composite with its resources. managed counts every kind with a
// spec.forProvider as one with management policies: before the first of a kind
// exists nothing else tells.
func worldOf(c *composite, resources []*resource, managed bool) *world {
	w := &world{composite: c, kinds: map[schema.GroupVersionKind]identity.Kind{}}
	for _, r := range resources {
		w.learn(r.observed, managed)
		w.learn(r.desired, managed)
	}
	return w
}

func (w *world) learn(u *unstructured.Unstructured, managed bool) {
	if u == nil {
		return
	}
	spec := ssa.Child(u.Object, "spec")
	role := ssa.RoleOf(spec)
	if _, ok := spec["forProvider"].(map[string]any); ok && managed {
		role = parent.RoleManaged
	}
	if role != parent.RoleNone {
		w.kinds[u.GroupVersionKind()] = identity.Kind{Role: role, ManagementPolicies: role == parent.RoleManaged}
	}
}

// Kind of composed resources, as far as their objects tell.
func (w *world) Kind(gvk schema.GroupVersionKind) identity.Kind { return w.kinds[gvk] }

// Parent is the composite, whatever is asked for: it is the parent of all that
// it composes.
func (w *world) Parent(context.Context, parent.Ref, bool) (*parent.State, error) {
	return w.composite.state, nil
}

// Object is the composite too.
func (w *world) Object(context.Context, parent.Ref) (map[string]any, error) { return w.object, nil }

// Settled as derived without a webhook.
func (w *world) Settled(parent.Ref) int64 { return w.composite.settled }

// StatusWriter is for the webhook.
func (w *world) StatusWriter(parent.Ref, string) bool { return false }

// NamespaceMode cannot be seen from here.
func (w *world) NamespaceMode(context.Context, string) (v1alpha1.Mode, error) { return "", nil }

// Managed resources below a nested composite cannot be seen from here.
func (w *world) Managed(context.Context, *parent.State) ([]*parent.State, error) { return nil, nil }

// Component is for the webhook.
func (w *world) Component(subject.User, string) bool { return false }

// Lists are unknown: a request holds no schema.
func (w *world) Lists(schema.GroupVersionKind) change.Lists { return nil }
