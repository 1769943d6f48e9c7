package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// DeletionID is the id by which the deletion of an object together with what it
// stands for is approved. For an XR or Claim it is about all MRs below it, and
// parent is the object itself.
func DeletionID(p, object *parent.State) string {
	return change.ID(v1alpha1.RelationExternal, string(Delete), parentIdentity(p), stateIdentity(object), nil)
}

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

// orphans tells why deleting an MR as it stands would leave its external
// resource behind unasked; "" where it would not.
func orphans(mr *parent.State) string {
	author := mask.AuthorOf(mr.Annotations, mr.ManagementPolicies)
	switch {
	case mr.Deleting(),
		mr.Annotations[v1alpha1.AnnotationKeyDeletion] == v1alpha1.DeletionOrphan,
		!mask.Gives(author, v1alpha1.VerbDelete),
		mr.DeletionPolicy == "Orphan" && slices.Contains(author, string(v1alpha1.VerbAll)):
		return ""
	case !mask.Gives(mr.ManagementPolicies, v1alpha1.VerbDelete):
		return "its gate is closed, the external resource would be left behind"
	case !openFor(mr.Annotations, v1alpha1.VerbDelete):
		return "the deletion of its external resource is not approved"
	}
	return ""
}

// Orphaned tells by whose word the external resource of an MR that is deleted as
// it stands is left behind; "" where it is not.
func Orphaned(mr *parent.State) string {
	author := mask.AuthorOf(mr.Annotations, mr.ManagementPolicies)
	switch {
	case mr.DeletionPolicy == "Orphan" && slices.Contains(mr.ManagementPolicies, string(v1alpha1.VerbAll)):
		return "deletionPolicy: Orphan"
	case mask.Gives(mr.ManagementPolicies, v1alpha1.VerbDelete), len(mr.ManagementPolicies) == 0:
		return "" // deleted, or it waits
	case mr.Annotations[v1alpha1.AnnotationKeyDeletion] == v1alpha1.DeletionOrphan:
		return "annotation " + v1alpha1.AnnotationKeyDeletion
	case !mask.Gives(author, v1alpha1.VerbDelete):
		return "its author, whose managementPolicies hold no Delete,"
	case mr.DeletionPolicy == "Orphan":
		return "deletionPolicy: Orphan"
	}
	return "whoever deleted it while nobody guarded it"
}

// withheld reports whether it is our mask that keeps Delete from an MR. Deleting
// it would orphan in log mode as well, until the gate has lifted the mask: what
// log mode lets pass is what would happen without us.
func withheld(mr *parent.State) bool {
	author := mask.AuthorOf(mr.Annotations, mr.ManagementPolicies)
	return mask.Gives(author, v1alpha1.VerbDelete) && !mask.Gives(mr.ManagementPolicies, v1alpha1.VerbDelete)
}

func (ev *evaluation) managedDeletion() (bool, error) {
	mr := parent.Sum(ev.req.OldObject, ev.kind.Role)
	why := orphans(mr)
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
			ev.warn(fmt.Sprintf("cannot list the managed resources below %s: %v", describe(root.Ref), err))
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
		if (m == v1alpha1.ModeEnforce || withheld(mr)) && orphans(mr) != "" {
			word := ev.deletingPolicy(ev.governor(root, mr), mr)
			if word == policyOrphan {
				continue
			}
			byPolicy = byPolicy && word == policyDelete
			names, blocked = append(names, describe(mr.Ref)), append(blocked, mr)
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
	ev.id = DeletionID(holder, object)
	found := ev.parent
	ev.parent, ev.set = holder, approval.Parse(holder.Annotations)
	ev.intent, _ = intentOf(holder)
	defer func() { ev.parent = found }()
	r := refusal{code: 403, reason: ReasonExternalDeletion, why: why, suggestion: Approve(holder.Ref, ev.kindOf(holder), ev.id)}
	m, ok := DeletionApproval(holder, object, ev.set, ev.use(ev.id))
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
			r.suggestion, target(blocked[0].Ref, ev.kindOf(blocked[0])), v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan)
		ev.d.Report = ev.report(r)
		ev.d.Report.Drift.Relation, ev.d.Suggestion = v1alpha1.RelationExternal, r.suggestion
		ev.d.Report.Repeat = ev.follows(holder)
		ev.d.Report.Drift.Cause = "deletion"
		if u := ev.req.User.Name; u != "" {
			ev.d.Report.Drift.Cause += " by " + u
		}
	}
	if ev.mode == v1alpha1.ModeLog && !slices.ContainsFunc(blocked, withheld) {
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

// stopped tells by whose word the gates of MRs are not opened for a deletion that
// is approved on a holder; nil for nobody's (Gating.stopped).
func (ev *evaluation) stopped(holder *parent.State, blocked []*parent.State) *refusal {
	if holder.Deleting() {
		return nil
	}
	kind := ev.kindOf(holder)
	if f := ev.set.Freeze; f != nil {
		r := frozen(holder.Ref, kind, f)
		return &r
	}
	for _, mr := range blocked {
		apiVersion, k := mr.ToAPIVersionAndKind()
		q := approval.Query{APIVersion: apiVersion, Kind: k, Name: mr.Name, Intent: ev.intent.Generation,
			Resource: mr.Annotations[v1alpha1.AnnotationKeyCompositionResourceName]}
		if found, ok := ev.set.Rejected(q); ok {
			r := rejection(holder.Ref, kind, found)
			return &r
		}
	}
	return nil
}

// DeletionApproval finds the approval on a holder for the deletion of an
// object's external resource.
func DeletionApproval(holder, object *parent.State, set approval.Set, use approval.Use) (approval.Match, bool) {
	apiVersion, kind := object.ToAPIVersionAndKind()
	intent, _ := intentOf(holder)
	return set.Approved(approval.Query{
		APIVersion: apiVersion, Kind: kind, Name: object.Name,
		Resource: object.Annotations[v1alpha1.AnnotationKeyCompositionResourceName],
		Relation: v1alpha1.RelationExternal, Verbs: []v1alpha1.Verb{v1alpha1.VerbDelete},
		Digests: []string{DeletionID(holder, object)}, Intent: intent.Generation, Use: use,
	})
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
