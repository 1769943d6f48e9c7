package authorize

import (
	"context"
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

// Write of an object that is allowed but for its user.
type Write struct {
	*facts.Facts
	// Incoming and Stored annotations.
	Incoming, Stored map[string]string
	// Self: the object's own controller writes.
	Self bool
	// ByComposer reports whether Crossplane writes what a Composition has, ByController whether the parent's own controller writes.
	ByComposer   func() bool
	ByController func() (bool, error)
	Warnings     *outcome.Warnings
}

// Needed reports whether any write needs a right beside that to write the object.
func Needed(f *facts.Facts) bool {
	return f.Options.ApproverRBAC.Required() || f.PolicySet().HasRules()
}

// Refusal checks that the user may decide about what controllers do with this object, where approver
// RBAC is on (KR-02-13), or ApprovalRules match the object (KR-14-60). A user decides by annotations, by
// a change after which a deletion orphans as with annotation deletion (KR-13-14), or by labels
// (KR-13-46). What a Composition sets is authorized by the right to write Compositions. It returns nil
// where the user may.
func (w *Write) Refusal(ctx context.Context, changed []string) *outcome.Refusal {
	everywhere := w.Options.ApproverRBAC.Required()
	needs := func(key string) bool {
		return everywhere && v1alpha1.NeedsApproverVerb(key) || !everywhere && decidesByRule(ctx, w, key)
	}
	if i := slices.IndexFunc(changed, needs); i >= 0 {
		if w.ByComposer() {
			return nil
		}
		return actor.Authorize(ctx, w.Facts, w.Warnings, "changing annotation "+changed[i])
	}
	what := alike(ctx, w)
	if what == "" || !everywhere && !Ruled(ctx, w.Facts) {
		return nil
	}
	if by, err := w.ByController(); by && err == nil {
		return nil // an error leaves it to the right of the user
	}
	return actor.Authorize(ctx, w.Facts, w.Warnings, what)
}

// alike returns what a write changes to the same effect as an annotation that needs the right to approve, as a clause; "" for
// nothing.
func alike(ctx context.Context, w *Write) string {
	if field := w.orphansFrom(); field != "" {
		return "changing " + field + " so that a deletion leaves the external resource behind"
	}
	if effect := w.relabeled(ctx); effect != "" {
		return "changing labels so that " + effect
	}
	if field := w.relinks(ctx); field != "" {
		return "changing " + field + " so that the composite has another Claim, or none"
	}
	return ""
}

// Ruled reports whether ApprovalRules match the object, whatever changes of it.
func Ruled(ctx context.Context, f *facts.Facts) bool {
	return len(approve.RulesAbout(ctx, f, f.Req.Stored())) > 0
}

// decidesByRule reports whether a change of an annotation lets changes pass by another way than the votes that ApprovalRules count: that
// needs the right to approve where one matches. A freeze and rejections hold changes of the object's children, whose rules are those of the
// Namespace as far as this object shows.
func decidesByRule(ctx context.Context, w *Write, key string) bool {
	switch key {
	case v1alpha1.AnnotationKeyMode, v1alpha1.AnnotationKeyDeletion, v1alpha1.AnnotationKeyParent:
		return Ruled(ctx, w.Facts)
	case v1alpha1.AnnotationKeyFreeze, v1alpha1.AnnotationKeyRejections:
		return w.Stored[key] != "" && w.PolicySet().HasRulesFor(w.Req.Namespace) && !addsTo(w, key)
	}
	return false
}

// addsTo reports whether a write of rejections keeps all that are stored.
func addsTo(w *Write, key string) bool {
	if key != v1alpha1.AnnotationKeyRejections {
		return false
	}
	was, is := approval.Parse(map[string]string{key: w.Stored[key]}), approval.Parse(map[string]string{key: w.Incoming[key]})
	return !slices.ContainsFunc(was.Rejections, func(r v1alpha1.Rejection) bool { return !slices.Contains(is.Rejections, r) })
}

// relinks returns the field by which an update of a composite or Claim takes the composite from its Claim, with what was
// decided there, or gives a composite without a parent its first Claim, whose approvals are about it then; "" for none (KR-13-50).
func (w *Write) relinks(ctx context.Context) string {
	old, field := w.Req.OldObject, ""
	switch w.Kind.Role {
	case parent.RoleComposite:
		if field = "claimRef"; w.HasParent && w.ParentRef.UID != "" { // an owner
			return ""
		}
	case parent.RoleClaim:
		field = "resourceRef"
	}
	if field == "" || old == nil || w.Self {
		return ""
	}
	was, _, err := unstructured.NestedMap(old.Object, "spec", field)
	if err != nil {
		return ""
	}
	if len(was) == 0 && !w.links(ctx) {
		return ""
	}
	is, _, err := unstructured.NestedMap(w.Req.Object.Object, "spec", field)
	for _, key := range []string{"kind", "namespace", "name"} {
		if err != nil || was[key] != is[key] {
			return "spec." + field
		}
	}
	return ""
}

// links reports whether an update gives a composite its first Claim, by another user than that Claim's controller. What a Claim names makes
// it no parent by itself.
func (w *Write) links(ctx context.Context) bool {
	ref, ok := parent.Of(w.Req.Object, w.Kind.Role)
	if w.Kind.Role != parent.RoleComposite || !ok || ref.UID != "" {
		return false
	}
	p, err := w.World.Parent(ctx, ref, false)
	if err != nil {
		return true
	}
	by, err := actor.Adopts(ctx, w.Facts, p)
	return err != nil || !by
}

// relabeled returns what an update of labels takes away from the object, as a clause; "" for nothing.
// The labels by which policies select objects are its editors' to write: to leave a policy by them is
// the same as annotation mode, and to be selected by an UpgradeAllowance the same as an approval
// (KR-13-46).
func (w *Write) relabeled(ctx context.Context) string {
	old, now := w.Req.OldObject, w.Req.Object
	if old == nil || maps.Equal(old.GetLabels(), now.GetLabels()) {
		return ""
	}
	if w.World.Guarded(parent.Sum(old, w.Kind.Role)) && !w.World.Guarded(parent.Sum(now, w.Kind.Role)) {
		return "requests about it are not reviewed any more"
	}
	if names := w.PolicySet().Selecting(now.GetLabels(), old.GetLabels()); w.HasParent && len(names) > 0 {
		return "UpgradeAllowance " + names[0] + " applies to it"
	}
	if name := leavesRule(ctx, w); name != "" {
		return "ApprovalRule " + name + " does not apply to it any more"
	}
	next := w.World.Settings(w.Req.Ref(), now.GetLabels())
	if w.Settings.RequireApproval && !next.RequireApproval {
		return "changes by other actors need no approval any more"
	}
	if w.Mode != v1alpha1.ModeEnforce {
		return ""
	}
	// An error was one of the decision already.
	mode, _, err := w.ModeOf(ctx, w.Stored[v1alpha1.AnnotationKeyMode], w.Req.Namespace, next)
	if err == nil && mode == v1alpha1.ModeLog {
		return "its mode is log"
	}
	return ""
}

// leavesRule returns the ApprovalRule that applies to the object by its stored labels, and not by those of the request; "" for
// none.
func leavesRule(ctx context.Context, w *Write) string {
	now := approve.RulesAbout(ctx, w.Facts, w.Req.Object)
	for _, r := range approve.RulesAbout(ctx, w.Facts, w.Req.OldObject) {
		if !slices.Contains(now, r) {
			return r.Name
		}
	}
	return ""
}

// orphansFrom returns the field that an update changes so that the deletion of a managed resource
// would leave its external resource behind, which it did not before; "" for none. A paused one, with
// [], waits for its author when it is deleted.
func (w *Write) orphansFrom() string {
	if w.Req.OldObject == nil || !w.Kind.ManagementPolicies {
		return ""
	}
	p := w.Desired
	was, is := facts.DeletionPolicy(p.Old), facts.DeletionPolicy(p.New)
	switch {
	case gating.Orphans(p.Before, was) || !gating.Orphans(p.Author, is):
		return ""
	case gating.Orphans(p.Author, was):
		return "spec.managementPolicies"
	}
	return "spec.deletionPolicy"
}
