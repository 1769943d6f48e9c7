package admission

import (
	"fmt"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// foreignDeletion judges deleting an object that takes what it stands for along,
// without managementPolicies to hold it: it needs an approval for that. The
// approval opens nothing beforehand, the deletion itself is what is let through.
func (ev *evaluation) foreignDeletion(what external.Destruction) (bool, error) {
	o := parent.Sum(ev.req.OldObject, ev.kind.Role)
	holder := o
	if ev.hasParent {
		if p, err := ev.World.Parent(ev.ctx, ev.parentRef, ev.live); err == nil {
			holder, ev.cached = p, !ev.live
		}
	}
	ev.id = identity.DeletionID(holder, o)
	found := ev.parent
	ev.parent, ev.set = holder, approval.Parse(holder.Annotations)
	ev.intent, _ = trace.Intent(holder)
	defer func() { ev.parent = found }()
	if ev.destructionApproved(holder, o, what.Verb) {
		ev.deletionApproved = true
		return false, nil
	}
	suggestion := identity.ApproveCommand(holder.Ref, ev.kindOf(holder), ev.id)
	r := refusal{code: 403, reason: ReasonExternalDeletion, why: what.Why, suggestion: suggestion,
		next: fmt.Sprintf("To delete all of that, approve and try again: %s . To leave it behind, first: kubectl patch %s %s", suggestion, identity.Target(o.Ref, ev.kindOf(o)), what.Otherwise)}
	ev.d.Report = ev.report(r)
	ev.d.Report.Drift.Relation, ev.d.Suggestion = v1alpha1.RelationExternal, suggestion
	if ev.mode == v1alpha1.ModeLog {
		ev.warn(ev.message(r))
		return false, nil
	}
	return ev.refuse(r)
}

// destructionApproved by the object's own approvals or its parent's, in
// Crossplane's words or the system's. A once approval is claimed.
func (ev *evaluation) destructionApproved(holder, o *parent.State, verb v1alpha1.Verb) bool {
	apiVersion, kind := o.ToAPIVersionAndKind()
	intent := ev.intent.Generation
	if holder.UID == o.UID {
		intent = gating.RecordedIntent(o.Annotations)
	}
	for _, v := range []v1alpha1.Verb{v1alpha1.VerbDelete, verb} {
		m, ok := ev.set.Approved(approval.Query{
			APIVersion: apiVersion, Kind: kind, Name: o.Name, Resource: o.Annotations[v1alpha1.AnnotationKeyCompositionResourceName],
			Relation: v1alpha1.RelationExternal, Verbs: []v1alpha1.Verb{v}, Digests: []string{ev.id}, Intent: intent, Use: ev.use(ev.id),
		})
		if !ok {
			continue
		}
		if m.NeedsClaim() {
			ev.claim(holder, ev.set, m.Entry, ev.use(ev.id))
		}
		return true
	}
	return false
}
