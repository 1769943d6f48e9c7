package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/suggest"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// maxUnknown bounds the warnings about annotations that mean nothing.
const maxUnknown = 5

// warnUnknown warns of annotations of Kausality's domain that a user adds or changes, and that have
// no meaning: unknown ones, which are dropped, and approvals with an invalid id. It does not warn a
// controller, which copies the annotations that it finds (KR-12-28).
func (ed *editor) warnUnknown() {
	var found []string
	for key, value := range ed.incoming {
		if old, was := ed.stored[key]; v1alpha1.IsKausality(key) && (!was || old != value) && meaningless(key) {
			found = append(found, key)
		}
	}
	if len(found) == 0 || ed.controllerWrites() {
		return
	}
	slices.Sort(found)
	for n, key := range found {
		if n == maxUnknown {
			ed.warnings.Add(fmt.Sprintf("%d more annotations of %s mean nothing", len(found)-n, v1alpha1.Group))
			return
		}
		ed.warnings.Add(unknownKey(key))
	}
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
		return fmt.Sprintf("annotation %s approves nothing: the id of a difference has 16 hexadecimal digits, as kubectl kausality pending prints it", key)
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
