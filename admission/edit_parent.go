package admission

import (
	"errors"
	"fmt"

	"github.com/kausality-io/function-kausality/admission/actor"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ownersPointer is where an object has its owners.
const ownersPointer = "/metadata/ownerReferences"

// keepParent puts the controller reference of a known child back where a write takes it away or
// points it elsewhere, while that parent exists (KR-13-13). Changes are decided about by the stored
// reference. If a client could redirect it, the client would choose the parent that decides. In mode
// log it is a warning, unless a user's decision on the parent holds in that mode, too. Where no parent
// is to be kept, the new one is checked (KR-13-63).
func (ed *editor) keepParent() {
	now, adopts := v1alpha1.ParentNone, false
	if uid := parent.ControllerUID(ed.Req.Object); uid != "" {
		now, adopts = string(uid), true
	}
	if !ed.keepsParent() || parent.SameController(ed.Req.OldObject, ed.Req.Object) || ed.Req.User.IsGarbageCollection() ||
		ed.meansParent(now) || ed.Req.User.Name == controllerManager { // the garbage collector, where all controllers share one user
		return
	}
	if parent.ControllerUID(ed.Req.OldObject) == "" {
		refuseAdoption(ed)
		return
	}
	// A cache may still have a parent that is gone: the garbage collector would delete the child with it.
	if _, err := ed.World.Parent(ed.ctx, ed.ParentRef, true); errors.Is(err, ErrNotFound) {
		if adopts {
			refuseAdoption(ed)
		}
		return
	}
	found := ed.lookUp()
	// Where the writer cannot be identified, it gets no more than others do.
	if by, err := ed.byParentsController(); err == nil && by {
		return
	}
	text := fmt.Sprintf("%s is the parent of %s and exists; to change that reference, set annotation %s=%s in the same write",
		identity.Describe(ed.ParentRef), identity.Describe(ed.Req.Ref()), v1alpha1.AnnotationKeyParent, now) + needsApprover(ed)
	if ed.Mode == v1alpha1.ModeLog && !holdsInLog(found.view) {
		ed.warnings.Add("the ownerReference with controller: true would be put back: " + text)
		return
	}
	ed.setField(ownersPointer, parent.WithController(ed.Req.Object, ed.Req.OldObject))
	ed.warnings.Add("the ownerReference with controller: true was put back: " + text)
}

// keepMembership puts the labels by which a child names its instance back where another user than kro changes them (KR-18-04).
// Changes are decided about by the stored labels. In mode log it is a warning, as of a controller reference.
func keepMembership(ed *editor) {
	if !ed.Member || ed.Req.OldObject == nil || parent.SameMembership(ed.Req.OldObject, ed.Req.Object) {
		return
	}
	now := v1alpha1.ParentNone
	if ref, ok := parent.Of(ed.Req.Object, parent.RoleNone); ok {
		now = string(ref.UID)
	}
	found := ed.lookUp()
	if found.view == nil || ed.meansParent(now) {
		return
	}
	// Where the writer cannot be identified, it gets no more than others do.
	if by, err := ed.byParentsController(); err == nil && by {
		return
	}
	text := fmt.Sprintf("%s is the parent of %s by them and exists; to change them, set annotation %s=%s in the same write",
		identity.Describe(ed.ParentRef), identity.Describe(ed.Req.Ref()), v1alpha1.AnnotationKeyParent, now) + needsApprover(ed)
	if ed.Mode == v1alpha1.ModeLog && !holdsInLog(found.view) {
		ed.warnings.Add("the labels of kro would be put back: " + text)
		return
	}
	ed.setField(labelsPointer, parent.WithMembership(ed.Req.Object, ed.Req.OldObject))
	ed.warnings.Add("the labels of kro were put back: " + text)
}

// labelsPointer is where an object has its labels.
const labelsPointer = "/metadata/labels"

// keepsParent reports whether the controller reference of an updated object is kept: that of kinds of Crossplane, and of
// objects that have a trace. A creation is its creator's, as that of a restored backup is (KR-13-58).
func (ed *editor) keepsParent() bool {
	return ed.Req.OldObject != nil &&
		(ed.Kind.ManagementPolicies || ed.Kind.Role != parent.RoleNone || ed.stored[v1alpha1.AnnotationKeyTrace] != "")
}

// refuseAdoption removes a controller reference that the object did not have, unless its writer is the controller of that parent (KR-13-63):
// what is approved on the parent would be about an object that its approvers did not see there. A parent on which no approval counts
// leaves it to its writer. In mode log it is a warning.
func refuseAdoption(ed *editor) {
	ref, _ := parent.Of(ed.Req.Object, parent.RoleNone)
	p, err := ed.World.Parent(ed.ctx, ref, false)
	switch {
	case err == nil && !ed.World.Guarded(p):
		return
	case err == nil:
		// Where the writer cannot be identified, it gets no more than others do.
		if by, err := actor.Adopts(ed.ctx, ed.evaluation.Facts, p); err == nil && by {
			return
		}
	case !ed.World.Guarded(&parent.State{Ref: ref}): // a kind that is not guarded cannot be read
		return
	}
	text := fmt.Sprintf("only the controller of %s may make it the parent of %s; to add the reference yourself, set annotation %s=%s in the same write",
		identity.Describe(ref), identity.Describe(ed.Req.Ref()), v1alpha1.AnnotationKeyParent, ref.UID) + needsApprover(ed)
	if ed.Mode == v1alpha1.ModeLog {
		ed.warnings.Add("the ownerReference with controller: true would be left out: " + text)
		return
	}
	ed.setField(ownersPointer, parent.WithController(ed.Req.Object, ed.Req.OldObject))
	ed.warnings.Add("the ownerReference with controller: true was left out: " + text)
}

// needsApprover returns what a message adds about an annotation that needs the right to approve.
func needsApprover(ed *editor) string {
	if !ed.Options.ApproverRBAC.Required() && !ruled(ed) {
		return ""
	}
	return fmt.Sprintf(" (it needs the verb %q on the subresource %s)", VerbApprove, SubresourceApproval)
}

// keepResourceName puts the composition resource name of a composed object back where an update by another user than Crossplane changes it
// (KR-13-65): approvals name resources of a composite by it.
func keepResourceName(ed *editor) {
	const key = v1alpha1.AnnotationKeyCompositionResourceName
	was, had := ed.stored[key]
	is, has := ed.incoming[key]
	if ed.Req.OldObject == nil || was == is && had == has || !ed.HasParent {
		return
	}
	// Where the writer cannot be identified, it gets no more than others do.
	if by, err := ed.byParentsController(); err == nil && by {
		return
	}
	text := fmt.Sprintf("it names the resource of %s in its Composition, and only Crossplane sets it", identity.Describe(ed.ParentRef))
	if ed.Mode == v1alpha1.ModeLog && !holdsInLog(ed.lookUp().view) {
		ed.warnings.Add(fmt.Sprintf("annotation %s would be put back: %s", key, text))
		return
	}
	if had {
		ed.put(key, was)
	} else {
		ed.set(key, nil)
	}
	ed.warnings.Add(fmt.Sprintf("annotation %s was put back: %s", key, text))
}

// meansParent reports whether this write sets the annotation that declares its controller
// reference as meant. A stored one declares nothing: it was about another write.
func (ed *editor) meansParent(now string) bool {
	const key = v1alpha1.AnnotationKeyParent
	_, reverted := ed.annotations[key]
	return !reverted && ed.incoming[key] == now && ed.stored[key] != now
}

// controllerManager is the user of all of its controllers where they have no ServiceAccounts
// of their own.
const controllerManager = "system:kube-controller-manager"

// holdsInLog reports whether a user decided about the children of a parent in a way that
// holds in mode log, too.
func holdsInLog(view *parentView) bool {
	return view != nil && (view.freeze != nil || len(view.set.Rejections) > 0)
}

// byParentsController reports whether the parent's own controller makes the request: a
// machine that is recorded to write its status or, where none is recorded, whose field
// manager does and that may (KR-13-04). Unlike identify, it does not conclude it from the
// child alone, which any user may have written last.
func (ev *evaluation) byParentsController() (bool, error) {
	if ev.Req.Actor == ActorParentController {
		return true, nil
	}
	if !ev.HasParent || !ev.World.MayControl(ev.Req.User, parent.RoleNone) {
		return false, nil
	}
	found := ev.lookUp()
	if found.view == nil {
		return false, found.err
	}
	return actor.ControlsParent(ev.ctx, ev.Facts, found.view.state)
}
