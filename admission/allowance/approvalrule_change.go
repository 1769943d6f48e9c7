package allowance

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Change that needs approval, as ApprovalRules see it.
type Change struct {
	Kind            schema.GroupKind
	Namespace, Name string
	Labels          map[string]string
	// NamespaceLabels are those of the Namespace; nil where they are not known.
	NamespaceLabels map[string]string
	Relation        v1alpha1.Relation
	// AppliesTo is what a rule must apply to; that of the relation where it is empty: Drift, or External.
	AppliesTo v1alpha1.AppliesTo
	// Verbs of the change: Create, Update, Delete.
	Verbs []v1alpha1.Verb
	// Changes of fields; a creation or deletion changes all.
	Changes []change.Change
	// Creates: an external resource that does not exist is created.
	Creates bool
}

// changesAll reports whether the change may be one of every field: a creation, a deletion, or one of an external resource of which no field is
// known. A system whose verbs may create and update, as that of Argo CD, changes the fields that it shows.
func (c *Change) changesAll() bool {
	if c.Relation != v1alpha1.RelationExternal {
		return !slices.Equal(c.Verbs, []v1alpha1.Verb{v1alpha1.VerbUpdate})
	}
	return c.Creates || len(c.Changes) == 0 || slices.Contains(c.Verbs, v1alpha1.VerbDelete)
}

// appliesTo returns the value of appliesTo that a rule must have to match the change.
func (c *Change) appliesTo() v1alpha1.AppliesTo {
	switch {
	case c.AppliesTo != "":
		return c.AppliesTo
	case c.Relation == v1alpha1.RelationExternal:
		return v1alpha1.AppliesToExternal
	}
	return v1alpha1.AppliesToDrift
}

// input returns the input of the expressions of ApprovalRules. Secret values are left out.
func (c *Change) input() *expression.Input {
	list := make([]any, 0, len(c.Changes))
	for _, f := range c.Changes {
		item := map[string]any{"path": f.Path, "verb": string(f.Verb)}
		if !f.Secret {
			item["old"], item["new"] = f.Old, f.New
		}
		list = append(list, item)
	}
	own := make(map[string]any, len(c.Labels))
	for k, v := range c.Labels {
		own[k] = v
	}
	return &expression.Input{Change: list, Resource: map[string]any{
		"group": c.Kind.Group, "kind": c.Kind.Kind, "namespace": c.Namespace, "name": c.Name, "labels": own,
	}}
}
