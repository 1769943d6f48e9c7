package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// externalDeletion is row 0 (spec 8, "Deletion"): whoever deletes an MR, an XR
// or a Claim must not orphan an external resource unasked.
func (ev *evaluation) externalDeletion() (bool, error) {
	if ev.req.Operation != Delete || ev.req.Subresource != "" || isDeleting(ev.req.OldObject) {
		return false, nil
	}
	switch {
	case ev.kind.ManagementPolicies:
		return ev.managedDeletion()
	case ev.kind.Role == parent.RoleComposite, ev.kind.Role == parent.RoleClaim:
		return ev.compositeDeletion()
	}
	if what := external.Destroys(ev.req.OldObject.GroupVersionKind().GroupKind(), ev.req.OldObject.Object); what != (external.Destruction{}) {
		return ev.foreignDeletion(what)
	}
	return false, nil
}

func (ev *evaluation) managedDeletion() (bool, error) {
	mr := parent.Sum(ev.req.OldObject, ev.kind.Role)
	why := gating.WouldOrphan(mr)
	if why == "" {
		return false, nil
	}
	holder, going := mr, false
	if ev.hasParent {
		switch p, err := ev.World.Parent(ev.ctx, ev.parentRef, ev.live); {
		case err == nil:
			holder, ev.cached, going = p, !ev.live, p.Deleting()
		case errors.Is(err, ErrNotFound):
			going = true
		}
	}
	word := policyNone
	if going {
		word = ev.deletingPolicy(ev.parentRef.GroupKind(), mr)
	}
	if word == policyOrphan {
		return false, nil
	}
	ev.policyDeletes = word == policyDelete
	return ev.deletionRefused(holder, mr, why, []*parent.State{mr})
}

func (ev *evaluation) compositeDeletion() (bool, error) {
	root := parent.Sum(ev.req.OldObject, ev.kind.Role)
	below, err := ev.World.Managed(ev.ctx, root)
	if err != nil {
		if ev.mode == v1alpha1.ModeLog {
			ev.warn(fmt.Sprintf("cannot list the managed resources below %s: %v", identity.Describe(root.Ref), err))
			return false, nil
		}
		return ev.refuse(refusal{code: codeInternal, reason: ReasonParentUnreadable,
			why: fmt.Sprintf("the managed resources below it cannot be read: %v", err), next: "Try again."})
	}
	var names []string
	var blocked []*parent.State
	byPolicy := true
	for _, mr := range below {
		m, err := ev.modeOf(mr.Annotations, mr.Namespace, ev.Options.settingsFor(mr.Ref, mr.Labels))
		if err != nil {
			return false, err
		}
		if (m == v1alpha1.ModeEnforce || gating.WithholdsDelete(mr)) && gating.WouldOrphan(mr) != "" {
			word := ev.deletingPolicy(ev.governor(root, mr), mr)
			if word == policyOrphan {
				continue
			}
			byPolicy = byPolicy && word == policyDelete
			names, blocked = append(names, identity.Describe(mr.Ref)), append(blocked, mr)
		}
	}
	ev.policyDeletes = byPolicy && len(blocked) > 0
	if len(blocked) == 0 {
		return false, nil
	}
	ev.mode = v1alpha1.ModeEnforce
	const show = 10
	if extra := len(names) - show; extra > 0 {
		names = append(names[:show], fmt.Sprintf("%d more", extra))
	}
	return ev.deletionRefused(root, root, "it would leave the external resources of these behind: "+strings.Join(names, ", "), blocked)
}

// deletionRefused refuses, or says that the gate is about to open.
func (ev *evaluation) deletionRefused(holder, object *parent.State, why string, blocked []*parent.State) (bool, error) {
	ev.id = identity.DeletionID(holder, object)
	found := ev.parent
	ev.parent, ev.set = holder, approval.Parse(holder.Annotations)
	ev.intent, _ = trace.Intent(holder)
	defer func() { ev.parent = found }()
	r := refusal{code: 403, reason: ReasonExternalDeletion, why: why, suggestion: identity.ApproveCommand(holder.Ref, ev.kindOf(holder), ev.id)}
	m, ok := gating.DeletionApproval(holder, object, ev.set, ev.use(ev.id))
	switch {
	case ok && ev.kind.ManagementPolicies && mask.Gives(object.ManagementPolicies, v1alpha1.VerbDelete):
		if m.NeedsClaim() {
			ev.claim(holder, ev.set, m.Entry, ev.use(ev.id))
		}
		ev.deletionApproved = true
		return false, nil
	case ok && ev.stopped(holder, blocked) != nil:
		return ev.refuse(*ev.stopped(holder, blocked))
	case ok:
		r.why = "it is approved, and the gate is being opened for it"
		r.next = "Try again in a moment."
	case ev.policyDeletes:
		r.why = "section deleting of an AllowancePolicy allows it, and the gate is being opened for it"
		r.next = "Try again in a moment."
		r.approve = &ApproveEffect{Holder: holder.Ref, Key: v1alpha1.AnnotationKeyApprovePrefix + ev.id, Value: string(v1alpha1.ApprovalOnce)}
	default:
		r.next = fmt.Sprintf("To delete the external resource with it, approve and try again: %s . To leave it behind on purpose: kubectl annotate %s %s=%s",
			r.suggestion, identity.Target(blocked[0].Ref, ev.kindOf(blocked[0])), v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan)
		ev.d.Report = ev.report(r)
		ev.d.Report.Drift.Relation, ev.d.Suggestion = v1alpha1.RelationExternal, r.suggestion
		ev.d.Report.Repeat = ev.follows(holder)
		ev.d.Report.Drift.Cause = "deletion"
		if u := ev.req.User.Name; u != "" {
			ev.d.Report.Drift.Cause += " by " + u
		}
	}
	if ev.mode == v1alpha1.ModeLog && !slices.ContainsFunc(blocked, gating.WithholdsDelete) {
		ev.warn(ev.message(r))
		return false, nil
	}
	return ev.refuse(r)
}

// follows reports whether the DELETE comes from somebody who carries out what
// others decided: the garbage collector, the namespace controller, Crossplane.
func (ev *evaluation) follows(holder *parent.State) bool {
	return ev.req.User.IsGarbageCollection() ||
		(holder.Role == parent.RoleComposite || holder.Role == parent.RoleClaim) && ev.writesStatus(holder, controllersOf(holder))
}

// stopped is the refusal by the freeze or rejection that keeps the gates of
// managed resources closed for an approved deletion; nil for none.
func (ev *evaluation) stopped(holder *parent.State, blocked []*parent.State) *refusal {
	freeze, rejected := gating.DeletionStopped(holder, ev.set, blocked)
	var r refusal
	switch {
	case freeze != nil:
		r = frozen(holder.Ref, ev.kindOf(holder), freeze)
	case rejected != nil:
		r = rejection(holder.Ref, ev.kindOf(holder), *rejected)
	default:
		return nil
	}
	return &r
}

// policyWord is what section deleting of policies says about an external
// resource.
type policyWord int

const (
	// policyNone: no policy has the section.
	policyNone policyWord = iota
	// policyDelete: it may be deleted.
	policyDelete
	// policyOrphan: the section names no External Delete, which asks for
	// orphaning.
	policyOrphan
)

// deletingPolicy for an MR of a parent of a kind that is being deleted.
func (ev *evaluation) deletingPolicy(kind schema.GroupKind, mr *parent.State) policyWord {
	s := allowance.Deleting(ev.policySet().Of(kind))
	switch {
	case !s.Given:
		return policyNone
	case allowance.Gives(s.External(mr.GroupKind()), allowance.VerbDelete):
		return policyDelete
	}
	return policyOrphan
}

// governor is the kind whose policies speak for an MR below what is deleted: that
// of the object itself or, where no policy is about it, of the MR's own parent.
func (ev *evaluation) governor(root, mr *parent.State) schema.GroupKind {
	if len(ev.policySet().Of(root.GroupKind())) > 0 || mr.Parent.Name == "" {
		return root.GroupKind()
	}
	return mr.Parent.GroupKind()
}
