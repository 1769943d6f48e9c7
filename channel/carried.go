package channel

import (
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

// Carried returns the approval that has let a listed difference through since it was last seen, by the annotations of the holder of its
// approvals; nil for none. Its Drift is resolved a moment later, and another approval would be for its next occurrence (KR-12-34).
func Carried(d *v1alpha1.Drift, annotations map[string]string) *v1alpha1.HopApproval {
	if d.Status.LastSeen == nil {
		return nil
	}
	pending := d.Spec.Relation != v1alpha1.RelationExternal // an open gate may need more votes than opened it
	return approval.ParseClaims(annotations[v1alpha1.AnnotationKeyClaims]).UsedFor(d.Spec.ID, d.Status.LastSeen.Time, pending)
}

// UnlessCarried returns an edit that changes nothing where the difference was let through.
func UnlessCarried(d *v1alpha1.Drift, key string, edit annotate.Edit) annotate.Edit {
	return annotate.Unless(func(annotations map[string]string) bool { return Carried(d, annotations) != nil }, key, edit)
}
