package admission

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/actor"
	"github.com/kausality-io/function-kausality/admission/authorize"
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
	if ed.Req.OldObject == nil || parent.SameController(ed.Req.OldObject, ed.Req.Object) && parent.SameMembership(ed.Req.OldObject, ed.Req.Object) {
		return
	}
	if keepMember(ed) {
		return
	}
	refuseMembership(ed)
	keepOwner(ed)
}

// keepOwner puts the controller reference back.
func keepOwner(ed *editor) {
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
	keep(ed, ed.Mode == v1alpha1.ModeLog && !holdsInLog(found.view), ownersPointer, parent.WithController(ed.Req.Object, ed.Req.OldObject),
		"the ownerReference with controller: true", "was", "put back: "+text)
}

// keepMember puts back what takes a known child away from the instance of a graph that its stored labels name (KR-18-04): labels that
// another user than kro changes, and a controller reference, which would count instead of them. Changes are decided about by what is
// stored. False where the stored labels name no guarded instance. In mode log it is a warning, as of a controller reference.
func keepMember(ed *editor) bool {
	old, object := ed.Req.OldObject, ed.Req.Object
	if !parent.IsMember(old, ed.Kind.Role) || !holds(ed, parentOf(old, ed.Kind.Role)) {
		return false
	}
	now := meantBy(object, ed.Kind.Role)
	if ed.meansParent(now) {
		return true
	}
	found := ed.lookUp()
	by, err := ed.byParentsController()
	kro := err == nil && by // where the writer cannot be identified, it gets no more than others do
	ref := parentOf(old, ed.Kind.Role)
	text := fmt.Sprintf("%s is the parent of %s by its labels and exists; to change that, set annotation %s=%s in the same write",
		identity.Describe(ref), identity.Describe(ed.Req.Ref()), v1alpha1.AnnotationKeyParent, now) + needsApprover(ed)
	log := ed.Mode == v1alpha1.ModeLog && !holdsInLog(found.view)
	if !parent.SameController(old, object) && (kro || !adopts(ed)) {
		keep(ed, log, ownersPointer, parent.WithController(object, old), "the ownerReference with controller: true", "was", "left out: "+text)
	}
	if !parent.SameMembership(old, object) && !kro {
		keep(ed, log, labelsPointer, parent.WithMembership(object, old), "the labels of kro", "were", "put back: "+text)
	}
	return true
}

// holds reports whether an instance of a graph that labels name exists and is guarded, or may be: whether it contains the object now may
// be another moment later.
func holds(ed *editor, ref parent.Ref) bool {
	if ed.World.Kind(ref.GroupVersionKind).Role != parent.RoleInstance {
		return false
	}
	p, err := ed.World.Parent(ed.ctx, ref, false)
	if err != nil {
		return !errors.Is(err, ErrNotFound) && ed.World.MayGuard(ref)
	}
	return ed.World.Guarded(p)
}

// adopts reports whether the controller of an owner makes it the parent of the object: one that may write the status of that owner.
func adopts(ed *editor) bool {
	ref := parentOf(ed.Req.Object, parent.RoleNone)
	p, err := ed.World.Parent(ed.ctx, ref, false)
	var by bool
	switch {
	case errors.Is(err, ErrNotFound): // the garbage collector would delete the object for it
	case err == nil && ed.World.Guarded(p):
		by, err = actor.Adopts(ed.ctx, ed.evaluation.Facts, p)
	default:
		by, err = actor.MayUpdateStatus(ed.ctx, ed.evaluation.Facts, ref, ed.World.Kind(ref.GroupVersionKind).Role)
	}
	return err == nil && by // where the writer cannot be identified, it gets no more than others do
}

// refuseMembership leaves out labels that name an instance, which the object did not have, unless kro writes them: what a user decided on
// the instance would be about an object that the user did not see there (KR-18-04). In mode log it is a warning.
func refuseMembership(ed *editor) {
	old, object := ed.Req.OldObject, ed.Req.Object
	if parent.SameMembership(old, object) || !parent.IsMember(object, ed.Kind.Role) {
		return
	}
	ref := parentOf(object, ed.Kind.Role)
	if ed.meansParent(string(ref.UID)) || !holds(ed, ref) {
		return
	}
	ed.lookUp() // of what an apply by kro names
	if by, err := ed.byParentsController(); err == nil && by && ed.ParentRef == ref {
		return
	}
	text := fmt.Sprintf("only kro may make %s the parent of %s; to set them yourself, set annotation %s=%s in the same write",
		identity.Describe(ref), identity.Describe(ed.Req.Ref()), v1alpha1.AnnotationKeyParent, ref.UID) + needsApprover(ed)
	keep(ed, ed.Mode == v1alpha1.ModeLog, labelsPointer, parent.WithMembership(object, old), "the labels of kro", "were", "left out: "+text)
}

// parentOf an object of a role, as Of; the zero Ref for none.
func parentOf(o *unstructured.Unstructured, role parent.Role) parent.Ref {
	ref, _ := parent.Of(o, role)
	return ref
}

// meantBy is the value of the annotation that declares the parent of an object as meant.
func meantBy(o *unstructured.Unstructured, role parent.Role) string {
	if ref := parentOf(o, role); ref.UID != "" {
		return string(ref.UID)
	}
	return v1alpha1.ParentNone
}

// keep a field as it should be, with a warning; in mode log with a warning alone.
func keep(ed *editor, log bool, pointer string, value any, what, is, text string) {
	if log {
		ed.warnings.Add(what + " would be " + text)
		return
	}
	ed.setField(pointer, value)
	ed.warnings.Add(what + " " + is + " " + text)
}

// labelsPointer is where an object has its labels.
const labelsPointer = "/metadata/labels"

// keepsParent reports whether the controller reference of an updated object is kept: that of kinds of Crossplane, and of
// objects that have a trace. A creation is its creator's, as that of a restored backup is (KR-13-58).
func (ed *editor) keepsParent() bool {
	return ed.Kind.ManagementPolicies || ed.Kind.Role != parent.RoleNone || ed.stored[v1alpha1.AnnotationKeyTrace] != ""
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
	case !ed.World.MayGuard(ref): // a kind that is not guarded cannot be read
		return
	}
	text := fmt.Sprintf("only the controller of %s may make it the parent of %s; to add the reference yourself, set annotation %s=%s in the same write",
		identity.Describe(ref), identity.Describe(ed.Req.Ref()), v1alpha1.AnnotationKeyParent, ref.UID) + needsApprover(ed)
	keep(ed, ed.Mode == v1alpha1.ModeLog, ownersPointer, parent.WithController(ed.Req.Object, ed.Req.OldObject),
		"the ownerReference with controller: true", "was", "left out: "+text)
}

// needsApprover returns what a message adds about an annotation that needs the right to approve.
func needsApprover(ed *editor) string {
	if !ed.Options.ApproverRBAC.Required() && !authorize.Ruled(ed.ctx, ed.evaluation.Facts) {
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
