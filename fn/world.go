package fn

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/offline"
	"github.com/kausality-io/function-kausality/fn/policies"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// world is the admission.World of one request: all that it knows is in the request. It knows no users, and needs none: the actor
// is the parent's controller.
type world struct {
	admission.Nothing

	composite *offline.Composite
	// unverified is the composite for a resource for which no votes count; nil for any other.
	unverified *parent.State
	// object is the composite as it is.
	object map[string]any
	// fingerprint of what composes it; "" where there is no UpgradeAllowance.
	fingerprint string
	kinds       map[schema.GroupVersionKind]identity.Kind
	// cluster is what the cluster configures; builds are the revisions that compose, where authors count.
	cluster policies.Cluster
	builds  policies.Builds
	// secrets are the fields that the Input names.
	secrets change.SecretFields
}

var _ admission.World = &world{}

// worldOf returns a World for a composite with its resources. Where the Input has managed policies,
// every kind with a spec.forProvider is one with management policies: a field that has its default does
// not show before the first object of the kind exists.
func worldOf(c *offline.Composite, object map[string]any, resources []*resource, cfg config) *world {
	w := &world{composite: c, object: object, kinds: map[schema.GroupVersionKind]identity.Kind{}, secrets: cfg.secrets}
	for _, r := range resources {
		w.learn(r.current(), cfg.managed)
		w.learn(r.desired, cfg.managed)
	}
	return w
}

// learn records the kind of an object, which may be nil.
func (w *world) learn(u *unstructured.Unstructured, managed bool) {
	if u == nil {
		return
	}
	spec := ssa.Child(u.Object, "spec")
	role := ssa.RoleOf(spec)
	if managed && ssa.Child(spec, "forProvider") != nil {
		role = parent.RoleManaged
	}
	if role != parent.RoleNone {
		w.kinds[u.GroupVersionKind()] = identity.Kind{Role: role, ManagementPolicies: role == parent.RoleManaged}
	}
}

// Kind returns the kind of composed resources, as far as their objects show it.
func (w *world) Kind(gvk schema.GroupVersionKind) identity.Kind {
	k := w.kinds[gvk]
	k.SecretFields = w.secrets
	return k
}

// role returns the role of composed resources of a kind.
func (w *world) role(gvk schema.GroupVersionKind) parent.Role { return w.kinds[gvk].Role }

// Parent returns the composite for every reference: it is the parent of all that it composes.
func (w *world) Parent(context.Context, parent.Ref, bool) (*parent.State, error) {
	if w.unverified != nil {
		return w.unverified, nil
	}
	return w.composite.State, nil
}

// Object returns the composite too.
func (w *world) Object(context.Context, parent.Ref) (map[string]any, error) { return w.object, nil }

// Settings returns the settings of the policy that covers an object.
func (w *world) Settings(object parent.Ref, labels map[string]string) settings.Settings {
	return w.cluster.Settings(object, labels)
}

// Removing reports whether Kausality is being removed.
func (w *world) Removing() bool { return w.cluster.Removing }

// Initialized returns the condition types that the policies name for a kind.
func (w *world) Initialized(kind schema.GroupKind) []string { return w.cluster.Initialized(kind) }

// Settled returns the generation that settled, as derived without a webhook.
func (w *world) Settled(parent.Ref) int64 { return w.composite.Settled }

// Namespace returns the Namespace that was fetched; zero for any other.
func (w *world) Namespace(_ context.Context, name string, _ bool) (settings.Namespace, error) {
	return w.cluster.Namespace(name), nil
}

// Author returns a cause with the author of the revision, where ApprovalRules may leave out their votes.
func (w *world) Author(_ context.Context, c v1alpha1.HopCause) (v1alpha1.HopCause, error) {
	return w.builds.Author(c), nil
}

// unknownBuild is the fingerprint of no stored resource.
const unknownBuild = "unknown"

// Build returns the build of what composes. The fingerprint of a webhook includes parts that no request
// shows: where there is one, it decides whether the build is new, and the function only whether the
// change is part of the upgrade (KR-09-07).
func (w *world) Build(context.Context, *admission.Request, *parent.State) (allowance.Build, error) {
	if w.composite.Webhook {
		return allowance.Build{Fingerprint: unknownBuild, Functions: w.builds.Functions(), RecordedLate: true}, nil
	}
	return allowance.Build{Fingerprint: w.fingerprint, RecordedLate: true}, nil
}
