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

// keepParent puts the controller reference of a known child back where a write takes it
// away or points it elsewhere, while that parent exists (KR-13-13). By what is stored,
// changes are decided about; and what a client could redirect would be decided about by
// whatever it chooses. In mode log it is a warning, unless a user's decision on the
// parent holds in that mode, too.
func (ed *editor) keepParent() {
	if !ed.knownChild() || parent.SameController(ed.Req.OldObject, ed.Req.Object) || ed.Req.User.IsGarbageCollection() {
		return
	}
	now := v1alpha1.ParentNone
	if uid := parent.ControllerUID(ed.Req.Object); uid != "" {
		now = string(uid)
	}
	if ed.meansParent(now) {
		return
	}
	if ed.Req.User.Name == controllerManager { // the garbage collector, where all controllers share one user
		return
	}
	// A cache may still have a parent that is gone: the garbage collector would delete the child with it.
	if _, err := ed.World.Parent(ed.ctx, ed.ParentRef, true); errors.Is(err, ErrNotFound) {
		return
	}
	found := ed.lookUp()
	// Where the writer cannot be identified, it gets no more than others do.
	if by, err := ed.byParentsController(); err == nil && by {
		return
	}
	text := fmt.Sprintf("%s is the parent of %s and exists; to change that reference, set annotation %s=%s in the same write",
		identity.Describe(ed.ParentRef), identity.Describe(ed.Req.Ref()), v1alpha1.AnnotationKeyParent, now)
	if ed.Options.ApproverRBAC {
		text += fmt.Sprintf(" (it needs the verb %q)", VerbApprove)
	}
	if ed.Mode == v1alpha1.ModeLog && !holdsInLog(found.view) {
		ed.warnings.Add("the ownerReference with controller: true would be put back: " + text)
		return
	}
	ed.setField(ownersPointer, parent.WithController(ed.Req.Object, ed.Req.OldObject))
	ed.warnings.Add("the ownerReference with controller: true was put back: " + text)
}

// knownChild reports whether the parent of an updated object is known: that of a kind of
// Crossplane, or of an object that has a trace.
func (ed *editor) knownChild() bool {
	return ed.Req.OldObject != nil && parent.ControllerUID(ed.Req.OldObject) != "" &&
		(ed.Kind.ManagementPolicies || ed.Kind.Role != parent.RoleNone || ed.stored[v1alpha1.AnnotationKeyTrace] != "")
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
	if !ev.HasParent || !actor.MayBeController(ev.Facts) {
		return false, nil
	}
	found := ev.lookUp()
	if found.view == nil {
		return false, found.err
	}
	return actor.ControlsParent(ev.ctx, ev.Facts, found.view.state)
}
