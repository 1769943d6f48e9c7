package parent

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Role of a kind in Crossplane or kro, by its CRD (KR-01-04).
type Role string

const (
	// RoleNone is any other kind.
	RoleNone Role = ""
	// RoleComposite is an XR.
	RoleComposite Role = "Composite"
	// RoleManaged is an MR: a kind with spec.managementPolicies.
	RoleManaged Role = "Managed"
	// RoleClaim is a Claim.
	RoleClaim Role = "Claim"
	// RoleInstance is an instance of a graph of kro: a kind whose CRD kro made.
	RoleInstance Role = "Instance"
)

// Crossplane reports whether kinds of the role are Crossplane's.
func (r Role) Crossplane() bool { return r != RoleNone && r != RoleInstance }

// Composed reports whether an object of the role is composed of others, which are deleted with it: a composite, a Claim, or an instance
// of a graph.
func (r Role) Composed() bool { return r == RoleComposite || r == RoleClaim || r == RoleInstance }

// Ref names an object. UID is empty where it is not known.
type Ref struct {
	schema.GroupVersionKind
	// Namespace is empty for cluster-scoped objects. That of an owner is its
	// dependent's, whether the owner has one or not: only a reader knows.
	Namespace string
	Name      string
	UID       types.UID
}

// RefOf returns the reference to an object.
func RefOf(o *unstructured.Unstructured) Ref {
	return Ref{GroupVersionKind: o.GroupVersionKind(), Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}
}

// Of returns the parent of an object of a role: the owner with controller: true
// or, for a composite, the Claim its spec.claimRef names or, for an object that
// has neither, the instance of a graph that its labels name. The
// namespace of an owner is the child's; a reader drops it for cluster-scoped
// kinds (KR-01-02, KR-01-03, KR-18-01).
func Of(o *unstructured.Unstructured, role Role) (Ref, bool) {
	if o == nil {
		return Ref{}, false
	}
	if owner := controllerOf(o); owner != nil {
		return Ref{
			GroupVersionKind: schema.FromAPIVersionAndKind(text(owner, "apiVersion"), text(owner, "kind")),
			Namespace:        o.GetNamespace(),
			Name:             text(owner, "name"),
			UID:              types.UID(text(owner, "uid")),
		}, true
	}
	if claim, ok := claimOf(o, role); ok {
		return claim, true
	}
	return instanceOf(o)
}

// ClaimOf returns the Claim of a composite: the one in spec.claimRef, which Crossplane writes for the Claim that it binds. Users of a Claim cannot write
// it; a user who may write composites can, and its labels as well. ok is false for a composite without a Claim.
func ClaimOf(xr *unstructured.Unstructured) (Ref, bool) { return claimOf(xr, RoleComposite) }

// claimOf returns the Claim of a composite, by its spec.claimRef.
func claimOf(o *unstructured.Unstructured, role Role) (Ref, bool) {
	if role != RoleComposite || modern(o) { // an XR with spec.crossplane has no Claim, its claimRef is its author's
		return Ref{}, false
	}
	claim, found, err := unstructured.NestedStringMap(o.Object, "spec", "claimRef")
	if err != nil || !found || claim["kind"] == "" || claim["name"] == "" {
		return Ref{}, false
	}
	return Ref{
		GroupVersionKind: schema.FromAPIVersionAndKind(claim["apiVersion"], claim["kind"]),
		Namespace:        claim["namespace"],
		Name:             claim["name"],
	}, true
}

// controllerOf returns the controller of an object: the ownerReference with controller: true as it is
// stored, since converting all of them takes longer; nil where there is no controller.
func controllerOf(o *unstructured.Unstructured) map[string]any {
	owners, _ := child(o.Object, "metadata")["ownerReferences"].([]any)
	for _, e := range owners {
		owner, ok := e.(map[string]any)
		if !ok {
			return nil
		}
		if controller, _ := owner["controller"].(bool); controller {
			return owner
		}
	}
	return nil
}

// SameController reports whether two objects have the same owner with controller: true,
// or none.
func SameController(a, b *unstructured.Unstructured) bool {
	return sameOwner(controllerOf(a), controllerOf(b))
}

func sameOwner(a, b map[string]any) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	for _, key := range []string{"apiVersion", "kind", "name", "uid"} {
		if text(a, key) != text(b, key) {
			return false
		}
	}
	return true
}

// ControllerUID returns the uid of an object's controller, which is its owner with controller: true; ""
// where there is no controller.
func ControllerUID(o *unstructured.Unstructured) types.UID {
	return types.UID(text(controllerOf(o), "uid"))
}

// WithController returns the ownerReferences of an object with the controller of
// another one instead of its own; without any where that has none. Neither is modified.
func WithController(o, of *unstructured.Unstructured) []any {
	owners, _ := child(o.Object, "metadata")["ownerReferences"].([]any)
	owner := controllerOf(of)
	out := make([]any, 0, len(owners)+1)
	for _, e := range owners {
		m, _ := e.(map[string]any)
		controls, _ := m["controller"].(bool)
		if controls || owner != nil && text(m, "uid") == text(owner, "uid") {
			continue
		}
		out = append(out, e)
	}
	if owner == nil {
		return out
	}
	return append(out, owner)
}

func child(m map[string]any, key string) map[string]any {
	out, _ := m[key].(map[string]any)
	return out
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// machineryPaths are the spec fields Crossplane writes itself (KR-01-05).
var machineryPaths = map[string]bool{
	"crossplane": true, "resourceRefs": true, "resourceRef": true, "claimRef": true,
	"compositionRef": true, "compositionRevisionRef": true, "compositionRevisionSelector": true,
	"compositionSelector": true, "compositionUpdatePolicy": true, "writeConnectionSecretToRef": true,
}

// modernMachinery is that of composites with spec.crossplane, whose own schema
// may hold a resourceRef of its author.
var modernMachinery = map[string]bool{"crossplane": true}

// Machinery returns the names of the spec fields that are machinery for a role:
// none but of composites and Claims (KR-01-05).
func Machinery(role Role, modern bool) map[string]bool {
	switch {
	case role != RoleComposite && role != RoleClaim:
		return nil
	case modern:
		return modernMachinery
	default:
		return machineryPaths
	}
}
