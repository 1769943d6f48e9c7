package admission

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/actor"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// authorize checks that the user may decide about what controllers do with this object, where approver
// RBAC is on (KR-02-13), or ApprovalRules match the object (KR-14-60). A user decides by annotations, by
// a change after which a deletion orphans as with annotation deletion (KR-13-14), or by labels
// (KR-13-46). What a Composition sets is authorized by the right to write Compositions. It returns nil
// where the user may.
func (ed *editor) authorize(changed []string) *outcome.Refusal {
	everywhere := ed.Options.ApproverRBAC.Required()
	if !everywhere && !ed.PolicySet().HasRules() {
		return nil
	}
	needs := func(key string) bool {
		return everywhere && v1alpha1.NeedsApproverVerb(key) || !everywhere && decidesByRule(ed, key)
	}
	if i := slices.IndexFunc(changed, needs); i >= 0 {
		if ed.byComposer() {
			return nil
		}
		return actor.Authorize(ed.ctx, ed.evaluation.Facts, ed.warned(), "changing annotation "+changed[i])
	}
	what := alike(ed)
	if what == "" || !everywhere && !ruled(ed) {
		return nil
	}
	if by, err := ed.byParentsController(); by && err == nil {
		return nil // an error leaves it to the right of the user
	}
	return actor.Authorize(ed.ctx, ed.evaluation.Facts, ed.warned(), what)
}

// alike returns what a write changes to the same effect as an annotation that needs the right to approve, as a clause; "" for
// nothing.
func alike(ed *editor) string {
	if field := ed.orphansFrom(); field != "" {
		return "changing " + field + " so that a deletion leaves the external resource behind"
	}
	if effect := ed.relabeled(); effect != "" {
		return "changing labels so that " + effect
	}
	if field := ed.relinks(); field != "" {
		return "changing " + field + " so that the composite has another Claim, or none"
	}
	return ""
}

// ruled reports whether ApprovalRules match the object, whatever changes of it.
func ruled(ed *editor) bool {
	return len(approve.RulesAbout(ed.ctx, ed.evaluation.Facts, ed.Req.Stored())) > 0
}

// decidesByRule reports whether a change of an annotation lets changes pass by another way than the votes that ApprovalRules count: that
// needs the right to approve where one matches. A freeze and rejections hold changes of the object's children, whose rules are those of the
// Namespace as far as this object shows.
func decidesByRule(ed *editor, key string) bool {
	switch key {
	case v1alpha1.AnnotationKeyMode, v1alpha1.AnnotationKeyDeletion, v1alpha1.AnnotationKeyParent:
		return ruled(ed)
	case v1alpha1.AnnotationKeyFreeze, v1alpha1.AnnotationKeyRejections:
		return ed.stored[key] != "" && ed.PolicySet().HasRulesFor(ed.Req.Namespace) && !addsTo(ed, key)
	}
	return false
}

// addsTo reports whether a write of rejections keeps all that are stored.
func addsTo(ed *editor, key string) bool {
	if key != v1alpha1.AnnotationKeyRejections {
		return false
	}
	was, is := approval.Parse(map[string]string{key: ed.stored[key]}), approval.Parse(map[string]string{key: ed.incoming[key]})
	return !slices.ContainsFunc(was.Rejections, func(r v1alpha1.Rejection) bool { return !slices.Contains(is.Rejections, r) })
}

// relinks returns the field by which an update of a composite or Claim takes the composite from its Claim, with what was
// decided there, or gives a composite without a parent its first Claim, whose approvals are about it then; "" for none (KR-13-50).
func (ed *editor) relinks() string {
	old, field := ed.Req.OldObject, ""
	switch ed.Kind.Role {
	case parent.RoleComposite:
		if field = "claimRef"; ed.HasParent && ed.ParentRef.UID != "" { // an owner
			return ""
		}
	case parent.RoleClaim:
		field = "resourceRef"
	}
	if field == "" || old == nil || ed.verdict.Class == outcome.ClassSelf {
		return ""
	}
	was, _, err := unstructured.NestedMap(old.Object, "spec", field)
	if err != nil {
		return ""
	}
	if len(was) == 0 && !ed.links() {
		return ""
	}
	is, _, err := unstructured.NestedMap(ed.Req.Object.Object, "spec", field)
	for _, key := range []string{"kind", "namespace", "name"} {
		if err != nil || was[key] != is[key] {
			return "spec." + field
		}
	}
	return ""
}

// links reports whether an update gives a composite its first Claim, by another user than that Claim's controller. What a Claim names makes
// it no parent by itself.
func (ed *editor) links() bool {
	ref, ok := parent.Of(ed.Req.Object, ed.Kind.Role)
	if ed.Kind.Role != parent.RoleComposite || !ok || ref.UID != "" {
		return false
	}
	p, err := ed.World.Parent(ed.ctx, ref, false)
	if err != nil {
		return true
	}
	by, err := actor.Adopts(ed.ctx, ed.evaluation.Facts, p)
	return err != nil || !by
}

// relabeled returns what an update of labels takes away from the object, as a clause; "" for nothing.
// The labels by which policies select objects are its editors' to write: to leave a policy by them is
// the same as annotation mode, and to be selected by an UpgradeAllowance the same as an approval
// (KR-13-46).
func (ed *editor) relabeled() string {
	old, now := ed.Req.OldObject, ed.Req.Object
	if old == nil || maps.Equal(old.GetLabels(), now.GetLabels()) {
		return ""
	}
	if ed.World.Guarded(parent.Sum(old, ed.Kind.Role)) && !ed.World.Guarded(parent.Sum(now, ed.Kind.Role)) {
		return "requests about it are not reviewed any more"
	}
	if names := ed.PolicySet().Selecting(now.GetLabels(), old.GetLabels()); ed.HasParent && len(names) > 0 {
		return "UpgradeAllowance " + names[0] + " applies to it"
	}
	if name := leavesRule(ed); name != "" {
		return "ApprovalRule " + name + " does not apply to it any more"
	}
	next := ed.World.Settings(ed.Req.Ref(), now.GetLabels())
	if ed.Settings.RequireApproval && !next.RequireApproval {
		return "changes by other actors need no approval any more"
	}
	if ed.Mode != v1alpha1.ModeEnforce {
		return ""
	}
	// An error was one of the decision already.
	mode, _, err := ed.ModeOf(ed.ctx, ed.stored[v1alpha1.AnnotationKeyMode], ed.Req.Namespace, next)
	if err == nil && mode == v1alpha1.ModeLog {
		return "its mode is log"
	}
	return ""
}

// leavesRule returns the ApprovalRule that applies to the object by its stored labels, and not by those of the request; "" for
// none.
func leavesRule(ed *editor) string {
	f := ed.evaluation.Facts
	now := approve.RulesAbout(ed.ctx, f, ed.Req.Object)
	for _, r := range approve.RulesAbout(ed.ctx, f, ed.Req.OldObject) {
		if !slices.Contains(now, r) {
			return r.Name
		}
	}
	return ""
}

// orphansFrom returns the field that an update changes so that the deletion of a managed resource
// would leave its external resource behind, which it did not before; "" for none. A paused one, with
// [], waits for its author when it is deleted.
func (ed *editor) orphansFrom() string {
	if ed.Req.OldObject == nil || !ed.Kind.ManagementPolicies {
		return ""
	}
	p := ed.Desired
	was, is := facts.DeletionPolicy(p.Old), facts.DeletionPolicy(p.New)
	switch {
	case gating.Orphans(p.Before, was) || !gating.Orphans(p.Author, is):
		return ""
	case gating.Orphans(p.Author, was):
		return "spec.managementPolicies"
	}
	return "spec.deletionPolicy"
}
