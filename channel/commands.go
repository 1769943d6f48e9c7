package channel

import (
	"regexp"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Commands with kubectl alone, as messages of the webhook have them: with the Namespace, the resource, the name, and the id.
var (
	approvesAlone  = regexp.MustCompile(`kubectl annotate (?:-n (\S+) )?(\S+) (\S+) kausality\.io/approve-([0-9a-f]{16})=(?:once|'once[^']*')`)
	unfreezesAlone = regexp.MustCompile(`kubectl annotate (-n \S+ )?(\S+\.\S+) (\S+) kausality\.io/freeze-`)
)

// OwnCommands replaces the commands in a message by those of the plugin that prints it (KR-12-36). What is not among the pending changes can be
// approved in advance by the annotation alone.
func OwnCommands(text string, pending []v1alpha1.Drift) string {
	text = unfreezesAlone.ReplaceAllString(text, "kubectl kausality unfreeze ${1}${2}/${3}")
	return approvesAlone.ReplaceAllStringFunc(text, func(command string) string {
		m := approvesAlone.FindStringSubmatch(command)
		if !slices.ContainsFunc(pending, func(d v1alpha1.Drift) bool { return d.Spec.ID == m[4] }) {
			return command
		}
		return strings.TrimSuffix("kubectl kausality approve "+m[4]+" -n "+m[1], " -n ")
	})
}
