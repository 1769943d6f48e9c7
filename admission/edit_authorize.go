package admission

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// authorize the user to decide about what controllers do with this object, where
// approver RBAC is on (KR-02-13): by the changed annotations, or by what lets a deletion
// orphan as annotation deletion does (KR-13-14), or labels (KR-13-46). What a Composition sets is authorized
// by the right to write Compositions.
func (ed *editor) authorize(changed []string) *refusal {
	if !ed.Options.ApproverRBAC {
		return nil
	}
	if i := slices.IndexFunc(changed, v1alpha1.NeedsApproverVerb); i >= 0 {
		if ed.byComposer() {
			return nil
		}
		return ed.authorizeTo("changing annotation " + changed[i])
	}
	what := ""
	if field := ed.orphansFrom(); field != "" {
		what = "changing " + field + " so that a deletion leaves the external resource behind"
	} else if effect := ed.relabeled(); effect != "" {
		what = "changing labels so that " + effect
	} else if field := ed.unlinksFrom(); field != "" {
		what = "changing " + field + " so that the Claim is not the parent of the composite any more"
	}
	if what == "" {
		return nil
	}
	if by, err := ed.byParentsController(); by && err == nil {
		return nil // an error leaves it to the right of the user
	}
	return ed.authorizeTo(what)
}

// unlinksFrom is the field by which an update of a composite or Claim takes the composite
// from its Claim, with what was decided there; "" for none (KR-13-50).
func (ed *editor) unlinksFrom() string {
	old, field := ed.req.OldObject, ""
	switch ed.kind.Role {
	case parent.RoleComposite:
		field = "claimRef"
		if ed.parentRef.UID != "" || !ed.hasParent { // an owner, or no Claim
			return ""
		}
	case parent.RoleClaim:
		field = "resourceRef"
	}
	if field == "" || old == nil || ed.verdict.Class == ClassSelf {
		return ""
	}
	was, _, err := unstructured.NestedMap(old.Object, "spec", field)
	if err != nil || len(was) == 0 {
		return ""
	}
	is, _, err := unstructured.NestedMap(ed.req.Object.Object, "spec", field)
	for _, key := range []string{"kind", "namespace", "name"} {
		if err != nil || was[key] != is[key] {
			return "spec." + field
		}
	}
	return ""
}

// relabeled is what an update of labels takes away from the object, as a clause; "" for
// nothing. The labels by which policies select objects are its editors' to write: to
// leave a policy by them is the same as annotation mode, and to be selected by an
// UpgradeAllowance the same as an approval (KR-13-46).
func (ed *editor) relabeled() string {
	old, now := ed.req.OldObject, ed.req.Object
	if old == nil || maps.Equal(old.GetLabels(), now.GetLabels()) {
		return ""
	}
	if ed.World.Guarded(parent.Sum(old, ed.kind.Role)) && !ed.World.Guarded(parent.Sum(now, ed.kind.Role)) {
		return "requests about it are not reviewed any more"
	}
	if names := ed.policySet().Selecting(now.GetLabels(), old.GetLabels()); ed.hasParent && len(names) > 0 {
		return "UpgradeAllowance " + names[0] + " applies to it"
	}
	next := ed.World.Settings(ed.req.Ref(), now.GetLabels())
	if ed.settings.RequireApproval && !next.RequireApproval {
		return "changes by other actors need no approval any more"
	}
	if ed.mode != v1alpha1.ModeEnforce {
		return ""
	}
	// An error was one of the decision already.
	mode, _, err := ed.modeOf(ed.ctx, ed.stored[v1alpha1.AnnotationKeyMode], ed.req.Namespace, next)
	if err == nil && mode == v1alpha1.ModeLog {
		return "its mode is log"
	}
	return ""
}

// orphansFrom is the field that an update changes so that the deletion of a managed
// resource would leave its external resource behind, which it did not before; "" for
// none. A paused one, with [], waits for its author when it is deleted.
func (ed *editor) orphansFrom() string {
	if ed.req.OldObject == nil || !ed.kind.ManagementPolicies {
		return ""
	}
	p := ed.policies
	was, is := deletionPolicy(p.old), deletionPolicy(p.new)
	switch {
	case gating.Orphans(p.before, was) || !gating.Orphans(p.author, is):
		return ""
	case gating.Orphans(p.author, was):
		return "spec.managementPolicies"
	}
	return "spec.deletionPolicy"
}

// deletionPolicy of an object's content; "" for none.
func deletionPolicy(content map[string]any) string {
	spec, _ := content["spec"].(map[string]any)
	value, _ := spec["deletionPolicy"].(string)
	return value
}

// authorizeTo do something, as a clause, by the verb approve.
func (ev *evaluation) authorizeTo(what string) *refusal {
	ok, err := ev.World.MayApprove(ev.ctx, ev.req.User, ev.req.Ref())
	switch {
	case err == nil && ok:
		return nil
	case err == nil:
		return &refusal{code: 403, reason: ReasonApproverForbidden,
			why:  fmt.Sprintf("%s needs the verb %q on %s", what, VerbApprove, identity.Target(ev.req.Ref(), ev.kind)),
			next: "A user who has it can make the change, or a Role can grant it."}
	case ev.mode == v1alpha1.ModeLog:
		ev.warnings.add(fmt.Sprintf("cannot check permission for %s (%v); it passes because the mode is log", what, err))
		return nil
	}
	return &refusal{code: codeInternal, reason: ReasonApproverForbidden,
		why: fmt.Sprintf("permission for %s cannot be checked: %v", what, err), next: "Try again."}
}
