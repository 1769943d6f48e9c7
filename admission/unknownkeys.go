package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/suggest"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// maxUnknown bounds the warnings about annotations that mean nothing.
const maxUnknown = 5

// warnUnknown warns of annotations of Kausality's domain that a user adds or changes without effect: unknown ones and approvals with an invalid id, which
// are dropped, those that Kausality alone writes, which keep their values, and approvals by an id under which nothing is known yet. It does not warn a
// controller, which copies the annotations that it finds (KR-12-28).
func (ed *editor) warnUnknown() {
	var found []string
	for key, value := range ed.incoming {
		if old, was := ed.stored[key]; v1alpha1.IsKausality(key) && (!was || old != value) {
			if why := ed.withoutEffect(key, value); why != "" {
				found = append(found, why)
			}
		}
	}
	if len(found) == 0 || ed.controllerWrites() {
		return
	}
	slices.Sort(found)
	for n, why := range found {
		if n == maxUnknown {
			ed.warnings.Add(fmt.Sprintf("%d more annotations of %s have no effect", len(found)-n, v1alpha1.Group))
			return
		}
		ed.warnings.Add(why)
	}
}

// withoutEffect returns the warning about an annotation that a user adds or changes; "" where it has an effect. Programs that apply what they have read
// write annotations of Kausality, too: only persons are warned of these.
func (ed *editor) withoutEffect(key, value string) string {
	switch {
	case meaningless(key):
		return unknownKey(key)
	case v1alpha1.IsSystem(key):
		if _, reverted := ed.annotations[key]; !reverted || ed.Req.OldObject == nil || ed.Req.User.IsMachine() {
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
	if _, is := knownApprovals(ed.ctx, ed.evaluation.Facts)(id); is {
		return ""
	}
	return fmt.Sprintf("nothing that waits for approval here has the id %s: the annotation approves a difference once one of this id is reported; "+
		"kubectl kausality pending lists what waits", id)
}

// meaningless reports whether Kausality does not read a key of its domain.
func meaningless(key string) bool {
	if v1alpha1.IsApprove(key) {
		return !change.IsID(strings.TrimPrefix(key, v1alpha1.AnnotationKeyApprovePrefix))
	}
	return !v1alpha1.IsUser(key) && !v1alpha1.IsSystem(key)
}

// unknownKey returns the warning about a key that means nothing, with the known one that is nearest,
// if one is near.
func unknownKey(key string) string {
	if v1alpha1.IsApprove(key) {
		return fmt.Sprintf("annotation %s approves nothing, and was dropped: "+
			"the id of a difference has 16 hexadecimal digits, as kubectl kausality pending prints it", key)
	}
	out := fmt.Sprintf("annotation %s is none that Kausality knows, and was dropped", key)
	name := strings.TrimPrefix(key, v1alpha1.AnnotationPrefix)
	if near := suggest.Nearest(name, v1alpha1.UserKeyNames()); near != "" {
		return out + "; did you mean " + v1alpha1.AnnotationPrefix + near + "?"
	}
	head, rest, _ := strings.Cut(name, "-")
	if near := suggest.Nearest(head, []string{"approve", "trace"}); near != "" && rest != "" {
		return out + "; did you mean " + v1alpha1.AnnotationPrefix + near + "-" + rest + "?"
	}
	return out
}
