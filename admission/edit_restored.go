package admission

import (
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// discardGone discards what an object that was restored from a backup brings of the deleted one (KR-13-58): approvals that were
// given to the deleted object, and, where no webhook was called when the object was created, when it settled. Lasting approvals
// are the manifest's. What this write adds is this object's.
func (ed *editor) discardGone() {
	from := ed.incoming
	if old := ed.Req.OldObject; old == nil {
		if from[v1alpha1.AnnotationKeyTrace] == "" {
			return
		}
	} else {
		if !parent.Copied(ed.stored, old.GetCreationTimestamp().Time) {
			return
		}
		from = ed.stored
		if len(ed.Changes) == 0 {
			ed.put(v1alpha1.AnnotationKeyTrace, trace.Current(parent.Sum(old, ed.Kind.Role)).String())
		}
	}
	for _, k := range []string{v1alpha1.AnnotationKeySettledGeneration, v1alpha1.AnnotationKeySettledState} {
		ed.set(k, nil)
	}
	if !approval.Holds(from) {
		return
	}
	gone := approval.Discard(from)
	for k, v := range gone {
		if k == v1alpha1.AnnotationKeyClaims || ed.incoming[k] == from[k] {
			ed.set(k, v)
		}
	}
	delete(gone, v1alpha1.AnnotationKeyClaims)
	if len(gone) > 0 && !ed.controllerWrites() {
		ed.warnings.Add("its approvals were given to an object of this name that is gone; all but lasting ones are removed")
	}
}
