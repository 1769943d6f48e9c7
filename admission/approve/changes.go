package approve

import (
	"context"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ChangeOf returns the change of the object in the form in which ApprovalRules are matched.
func ChangeOf(ctx context.Context, f *facts.Facts) allowance.Change {
	ref := f.Req.Ref()
	return allowance.Change{Kind: ref.GroupKind(), Namespace: ref.Namespace, Name: ref.Name, Labels: f.Req.Stored().GetLabels(),
		NamespaceLabels: namespaceLabels(ctx, f, ref.Namespace), Relation: v1alpha1.RelationControllerChild,
		Verbs: []v1alpha1.Verb{v1alpha1.Verb(f.Verb())}, Changes: f.Changes}
}

// namespaceLabels returns the labels of a Namespace; nil where they cannot be read, which does not make a rule match
// less (KR-14-23).
func namespaceLabels(ctx context.Context, f *facts.Facts, name string) map[string]string {
	if name == "" {
		return nil
	}
	ns, err := f.World.Namespace(ctx, name, false)
	if err != nil {
		return nil
	}
	return ns.Labels
}

// Destroying returns the destruction of external resources in the form in which ApprovalRules are matched.
func Destroying(ctx context.Context, f *facts.Facts, objects []*parent.State) []allowance.Change {
	if !f.PolicySet().HasRules() {
		return nil
	}
	out := make([]allowance.Change, 0, len(objects))
	for _, o := range objects {
		c := gating.ExternalChange(o, []v1alpha1.Verb{v1alpha1.VerbDelete})
		c.NamespaceLabels = namespaceLabels(ctx, f, o.Namespace)
		out = append(out, c)
	}
	return out
}

// ChangesInWindow returns the changes for rules that apply to changes without approvals. The change of a managed
// resource is one of the object and, since it opens the gate, one of its external resource (KR-14-21).
func ChangesInWindow(ctx context.Context, f *facts.Facts, a v1alpha1.AppliesTo) []allowance.Change {
	object := ChangeOf(ctx, f)
	object.AppliesTo = a
	if !f.Kind.ManagementPolicies {
		return []allowance.Change{object}
	}
	outside := object
	outside.Relation = v1alpha1.RelationExternal
	return []allowance.Change{object, outside}
}
