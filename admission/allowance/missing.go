package allowance

import (
	"strings"

	"github.com/kausality-io/function-kausality/admission/change"
)

// maxMissingPaths is the number of paths that a message lists.
const maxMissingPaths = 10

// DescribeMissing names the paths that no allowance covers, in messages: the verb
// where the one path is "", for a creation or deletion.
func DescribeMissing(paths []string, verb string) string {
	if len(paths) == 0 || paths[0] == "" {
		return strings.ToLower(verb)
	}
	return change.First(paths, maxMissingPaths)
}
