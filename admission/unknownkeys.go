package admission

import (
	"fmt"
	"strings"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/keys"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// warnUnknown warns of annotations of Kausality's domain that a user adds or changes without effect: unknown ones and approvals with an invalid id, which
// are dropped, those that Kausality alone writes, which keep their values, and approvals by an id under which nothing is known yet. It does not warn a
// controller, which copies the annotations that it finds (KR-12-28).
func (ed *editor) warnUnknown() {
	if ed.KeepsAnnotations || ed.controllerWrites() {
		return
	}
	var found []string
	for key, value := range ed.incoming {
		if old, was := ed.stored[key]; v1alpha1.IsKausality(key) && (!was || old != value) {
			if why := ed.withoutEffect(key, value); why != "" {
				found = append(found, why)
			}
		}
	}
	for _, why := range keys.Bounded(found) {
		ed.warnings.Add(why)
	}
}

// withoutEffect returns the warning about an annotation that a user adds or changes; "" where it has an effect. Programs that apply what they have read
// write annotations of Kausality, too: only persons are warned of these, and not of the values that the first call for a request has set.
func (ed *editor) withoutEffect(key, value string) string {
	switch {
	case keys.Meaningless(key):
		return keys.Unknown(key)
	case v1alpha1.IsSystem(key):
		if to := ed.annotations[key]; to == nil || *to != ed.stored[key] || ed.Req.OldObject == nil || ed.Req.User.IsMachine() {
			return ""
		}
		return fmt.Sprintf("annotation %s is written by Kausality alone: it stays as it was", key)
	case !v1alpha1.IsApprove(key) || ed.Req.OldObject == nil:
		return ""
	}
	id := strings.TrimPrefix(key, v1alpha1.AnnotationKeyApprovePrefix)
	set := approval.Parse(map[string]string{key: value})
	if len(set.Approvals) == 0 || set.Approvals[0].BreakGlass != "" {
		return ""
	}
	if _, is := approve.Known(ed.ctx, ed.evaluation.Facts)(id); is {
		return ""
	}
	return fmt.Sprintf("nothing that waits for approval here has the id %s: the annotation approves a difference once one of this id is reported; "+
		"kubectl kausality pending lists what waits", id)
}
