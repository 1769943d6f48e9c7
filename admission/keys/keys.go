package keys

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/suggest"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// maxWarnings bounds the warnings about annotations without effect.
const maxWarnings = 5

// Bounded returns the first warnings about annotations without effect, sorted, and how many more there are. It sorts its argument.
func Bounded(warnings []string) []string {
	slices.Sort(warnings)
	if more := len(warnings) - maxWarnings; more > 0 {
		return append(warnings[:maxWarnings:maxWarnings], fmt.Sprintf("%d more annotations of %s have no effect", more, v1alpha1.Group))
	}
	return warnings
}

// Meaningless reports whether Kausality does not read a key of its domain.
func Meaningless(key string) bool {
	if v1alpha1.IsApprove(key) {
		return !change.IsID(strings.TrimPrefix(key, v1alpha1.AnnotationKeyApprovePrefix))
	}
	return !v1alpha1.IsUser(key) && !v1alpha1.IsSystem(key)
}

// Unknown returns the warning about a key that means nothing, with the known one that is nearest,
// if one is near.
func Unknown(key string) string {
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
