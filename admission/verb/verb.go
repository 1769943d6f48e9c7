package verb

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Verbs of external systems other than Crossplane (KR-06-11).
const (
	// Apply of Terraform: Create and Update.
	Apply = "apply"
	// Destroy of Terraform: Delete.
	Destroy = "destroy"
	// Sync of Argo CD: Create and Update, nothing pruned.
	Sync = "sync"
	// Remove of Argo CD: Delete, which pruning is as well.
	Remove = "delete"
)

// System is what changes the external resources of an object.
type System string

const (
	// Crossplane is the provider of a managed resource. It is the System of every kind that
	// has none of the others.
	Crossplane System = "Crossplane"
	// Terraform, or OpenTofu: the provider of a Workspace, or the tofu-controller of Flux.
	Terraform System = "Terraform"
	// ArgoCD is Argo CD.
	ArgoCD System = "Argo CD"
	// Any has the verbs of all of them: for a plan in a pipeline, whose allowances any system
	// may have been given. No kind is of it.
	Any System = ""
)

var (
	changes   = []v1alpha1.Verb{v1alpha1.VerbCreate, v1alpha1.VerbUpdate}
	deletes   = []v1alpha1.Verb{v1alpha1.VerbDelete}
	anything  = slices.Concat(changes, deletes)
	universal = map[string][]v1alpha1.Verb{
		string(v1alpha1.VerbCreate): {v1alpha1.VerbCreate}, string(v1alpha1.VerbUpdate): {v1alpha1.VerbUpdate},
		string(v1alpha1.VerbDelete): deletes, string(v1alpha1.VerbAll): anything,
	}
	own = map[System]map[string][]v1alpha1.Verb{
		Terraform: {Apply: changes, Destroy: deletes},
		ArgoCD:    {Sync: changes, Remove: deletes},
		Any:       {Apply: changes, Destroy: deletes, Sync: changes, Remove: deletes},
	}
)

// Means returns the verbs of Crossplane that a verb stands for in a system, in the order
// Create, Update, Delete; nil for one that has no effect there (KR-08-49). The caller does
// not modify it.
func (s System) Means(verb string) []v1alpha1.Verb {
	if of := universal[verb]; of != nil {
		return of
	}
	return own[s][verb]
}

// Names returns the names in a system of verbs of Crossplane that change or delete something outside: its own ones where it has any.
func (s System) Names(verbs []v1alpha1.Verb) (out []string) {
	for _, v := range verbs {
		if !slices.Contains(anything, v) {
			continue
		}
		name := string(v)
		for _, is := range s.Verbs() {
			if slices.Contains(own[s][is], v) {
				name = is
				break
			}
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// Verbs returns the verbs that have an effect in a system, its own first.
func (s System) Verbs() []string {
	var out []string
	switch s {
	case Terraform:
		out = []string{Apply, Destroy}
	case ArgoCD:
		out = []string{Sync, Remove}
	case Any:
		out = []string{Apply, Destroy, Sync, Remove}
	}
	return append(out, string(v1alpha1.VerbCreate), string(v1alpha1.VerbUpdate), string(v1alpha1.VerbDelete), string(v1alpha1.VerbAll))
}

// workspaceGroups are the API groups of Terraform and OpenTofu Workspaces,
// cluster-scoped and namespaced.
var workspaceGroups = []string{"tf.upbound.io", "tf.m.upbound.io", "opentofu.upbound.io", "opentofu.m.upbound.io"}

const (
	workspace   = "Workspace"
	terraform   = "Terraform"
	application = "Application"
)

// IsWorkspace reports whether objects are Terraform or OpenTofu Workspaces: managed
// resources, each with a run of its own.
func IsWorkspace(gk schema.GroupKind) bool {
	return gk.Kind == workspace && slices.Contains(workspaceGroups, gk.Group)
}

// IsForeign reports whether objects of a kind have a gate although they are no managed
// resources: a Terraform object of Flux, an Application of Argo CD.
func IsForeign(gk schema.GroupKind) bool { return !IsWorkspace(gk) && Of(gk) != Crossplane }

// Of returns the system of a kind.
func Of(gk schema.GroupKind) System {
	switch {
	case IsWorkspace(gk), gk == schema.GroupKind{Group: "infra.contrib.fluxcd.io", Kind: terraform}:
		return Terraform
	case gk == schema.GroupKind{Group: "argoproj.io", Kind: application}:
		return ArgoCD
	}
	return Crossplane
}

// Default returns the verbs of an approval without verbs for objects of a kind, in Crossplane's verbs:
// updates, and for an object that is not a managed resource what its system does with every change.
func Default(gk schema.GroupKind) []v1alpha1.Verb {
	if IsForeign(gk) {
		return changes
	}
	return universal[string(v1alpha1.VerbUpdate)]
}

// Target of a verb in a policy or an approval: objects of a kind, as far as it is known.
type Target struct {
	Group, Kind string
	// AnyGroup: Group is not known.
	AnyGroup bool
	// AnyKind: neither is known.
	AnyKind bool
}

// Unfit returns why a verb has no effect on a target, as a clause; "" where it has one.
// certain: it can have none. Otherwise that depends on what the target turns out to be.
func (t Target) Unfit(verb string) (why string, certain bool) {
	systems := t.systems()
	fits := 0
	for _, s := range systems {
		if s.Means(verb) != nil {
			fits++
		}
	}
	switch {
	case fits == len(systems):
		return "", false
	case fits > 0:
		return "it has an effect on " + objectsOf(verb) + " alone", false
	case objectsOf(verb) == "":
		return "it is no verb of an external system: " + strings.Join(systems[0].Verbs(), ", "), true
	}
	return "it has an effect on " + objectsOf(verb) + " alone; for " + t.describe() + ": " + strings.Join(systems[0].Verbs(), ", "), true
}

// systems returns the systems that the target may be of.
func (t Target) systems() []System {
	switch {
	case t.AnyKind:
		return []System{Crossplane, Terraform, ArgoCD}
	case !t.AnyGroup:
		return []System{Of(schema.GroupKind{Group: t.Group, Kind: t.Kind})}
	case t.Kind == workspace, t.Kind == terraform:
		return []System{Crossplane, Terraform}
	case t.Kind == application:
		return []System{Crossplane, ArgoCD}
	}
	return []System{Crossplane}
}

// describe returns a description of the target, for messages.
func (t Target) describe() string {
	if t.AnyGroup {
		return t.Kind
	}
	return schema.GroupKind{Group: t.Group, Kind: t.Kind}.String()
}

// objectsOf returns a description of the objects of a verb's system, for messages; "" for a verb of no
// system.
func objectsOf(verb string) string {
	switch verb {
	case Apply, Destroy:
		return "Workspaces and Terraform objects of Flux"
	case Sync, Remove:
		return "Applications of Argo CD"
	}
	return ""
}
