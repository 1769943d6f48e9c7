package checkplan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/admission/carry"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// allowed is what a run may do.
type allowed struct {
	permissions []external.Permission
	// note for users; empty for none.
	note string
}

// inEnvironment returns what the environment of a run shows that it may do. Kausality writes it into spec.forProvider.env of a Workspace (KR-08-62).
func inEnvironment(getenv func(string) string, now time.Time) (allowed, error) {
	verbs, initiator, origin := getenv(carry.VariableAllowed), getenv(carry.VariableInitiator), getenv(carry.VariableOrigin)
	if getenv(carry.VariableTraceID) == "" {
		return allowed{}, fmt.Errorf("nothing shows what is allowed: give --allowances or --annotations, or run it in a Workspace whose %s "+
			"is written by Kausality (external.provenance: [TerraformEnv])", carry.VariableAllowed)
	}
	if verbs == "" {
		return allowed{
			permissions: []external.Permission{{Verbs: []string{string(v1alpha1.VerbAll)}, Initiator: initiator, Origin: origin}},
			note:        "no gate limits this run: " + carry.VariableAllowed + " is not set",
		}, nil
	}
	if text := getenv(carry.VariableAllowedUntil); text != "" {
		until, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return allowed{}, fmt.Errorf("%s: %w", carry.VariableAllowedUntil, err)
		}
		if !now.Before(until) {
			return allowed{note: fmt.Sprintf("%s was allowed until %s", verbs, text)}, nil
		}
	}
	gate := external.Permission{Verbs: strings.Split(verbs, ","), Initiator: initiator, Origin: origin}
	parts := getenv(carry.VariableAllowances)
	if parts == "" {
		return allowed{permissions: []external.Permission{gate}}, nil
	}
	permissions, err := external.ParsePermissions(parts)
	if err != nil {
		return allowed{}, fmt.Errorf("%s: %w", carry.VariableAllowances, err)
	}
	for i := range permissions {
		p := &permissions[i]
		p.Verbs = slices.DeleteFunc(meanings(p.Verbs), func(v string) bool { return !slices.Contains(meanings(gate.Verbs), v) })
		p.Initiator, p.Origin = initiator, origin
	}
	permissions = slices.DeleteFunc(permissions, func(p external.Permission) bool { return len(p.Verbs) == 0 })
	return allowed{permissions: permissions}, nil
}

// meanings returns the meanings of verbs of Terraform, in the verbs of Crossplane.
func meanings(verbs []string) (out []string) {
	for _, v := range verbs {
		out = append(out, lists.Map(verb.Terraform.Means(v), func(m v1alpha1.Verb) string { return string(m) })...)
	}
	return out
}
