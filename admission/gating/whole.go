package gating

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Destroyed returns the managed resources below a composite, a Claim or an instance of a graph whose external resources are deleted with it. Its
// approval is one for all of them, in whatever mode each is and whether or not another one has opened its gate: an approval that is not enough for
// one of them is for none.
func Destroyed(policies *allowance.Set, root *parent.State, below []*parent.State) []*parent.State {
	var out []*parent.State
	for _, mr := range below {
		if !mr.Deleting() && takesAlong(mr) && policies.ExternalDeletion(Governor(policies, root, mr), mr.GroupKind()) != allowance.DeletionOrphans {
			out = append(out, mr)
		}
	}
	return out
}

// Governor returns the kind whose policies declare, in their section deleting, what becomes of the external resource of a managed resource when a
// composite, Claim or instance above it is deleted.
func Governor(policies *allowance.Set, root, mr *parent.State) schema.GroupKind {
	if len(policies.Of(root.GroupKind())) > 0 || mr.Parent.Name == "" {
		return root.GroupKind()
	}
	return mr.Parent.GroupKind()
}

// SameDeletion reports whether two versions of a managed resource are equal in what decides about the approval of a deletion above it.
func SameDeletion(a, b *parent.State) bool {
	return a.Deleting() == b.Deleting() && takesAlong(a) == takesAlong(b) && maps.Equal(a.Labels, b.Labels)
}

// together returns what is destroyed with the external resource of a managed resource when a holder is deleted, as ApprovalRules see it. It is
// stopped where that cannot be read, or the holder has a rejection of a part.
func together(g Managed, h identity.Holder, set approval.Set, whole identity.Whole) (others []allowance.Change, stopped bool) {
	below, ok := whole.Below()
	if !ok {
		return nil, true
	}
	destroyed := Destroyed(g.Policies, h.State, below)
	if DeletionRejected(h.State, set, destroyed) != nil {
		return nil, true
	}
	return destructions(g, whole, destroyed), false
}

// destructions returns the deletion of external resources as ApprovalRules see it; none where there are no rules.
func destructions(g Managed, whole identity.Whole, destroyed []*parent.State) []allowance.Change {
	if !g.Policies.HasRules() {
		return nil
	}
	out := make([]allowance.Change, 0, len(destroyed))
	for _, mr := range destroyed {
		c := ExternalChange(mr, []v1alpha1.Verb{v1alpha1.VerbDelete})
		switch {
		case mr.Namespace == g.MR.Namespace:
			c.NamespaceLabels = g.covering().Namespace.Labels
		case whole.NamespaceLabels != nil:
			c.NamespaceLabels = whole.NamespaceLabels(mr.Namespace)
		}
		out = append(out, c)
	}
	return out
}

// windowsOf returns the ApprovalRules whose windows bind verbs on the external resource: for its deletion those about all that is destroyed by
// the same approval, which digest identifies, or may be by any where that is "".
func windowsOf(g Managed, verbs []v1alpha1.Verb, digest string) allowance.Rules {
	var others []allowance.Change
	if g.Policies.HasRules() && slices.Contains(verbs, v1alpha1.VerbDelete) {
		for _, h := range g.Holders {
			set := h.Decisions(g.Now)
			whole, ok := g.wholeOf(h, set)
			id := whole.Digest.ID()
			approved := ok && slices.ContainsFunc(set.Approvals, func(e approval.Entry) bool { return e.Digest == id })
			if !approved || digest != "" && id != digest {
				continue
			}
			if below, ok := whole.Below(); ok {
				others = append(others, destructions(g, whole, Destroyed(g.Policies, h.State, below))...)
			}
		}
	}
	return g.rules(verbs, others...)
}
