package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/suggest"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
)

// withCause returns the pending changes of one cause. It is an error where there are
// changes, and none of that cause.
func withCause(list []v1alpha1.Drift, key string) ([]v1alpha1.Drift, error) {
	if key == "" {
		return list, nil
	}
	var out []v1alpha1.Drift
	var keys []string
	for i := range list {
		have := channel.CauseKey(&list[i])
		if have == key {
			out = append(out, list[i])
		}
		keys = append(keys, have)
	}
	if len(out) > 0 {
		return out, nil
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(keys) == 0 {
		return nil, errors.New("nothing waits for approval there, of any cause")
	}
	return nil, fmt.Errorf("no pending change has cause %q%s", key, known(key, keys))
}

// maxKnown bounds the names that an error lists.
const maxKnown = 5

// known names for one that is unknown, as the end of a sentence: the nearest one, or some
// of them.
func known(name string, names []string) string {
	if near := suggest.Nearest(name, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if len(names) > maxKnown {
		names = append(slices.Clone(names[:maxKnown]), "…")
	}
	return "; there are: " + strings.Join(names, ", ")
}
