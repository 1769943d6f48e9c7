package external

import (
	"maps"
	"slices"

	"github.com/kausality-io/function-kausality/admission/change"
)

// PlanOutput is the output of a Workspace that has a RunPlan. `kausality terraform exec` writes it in place of what the
// module has under that name.
const PlanOutput = "kausality_plan"

// MaxPlanned is how many changes a RunPlan lists.
const MaxPlanned = 32

// RunPlan is what a run of Terraform would change, without values.
type RunPlan struct {
	// Differs as the exit code of plan -detailed-exitcode has it.
	Differs bool `json:"differs"`
	// Changes by the address of a resource, or output.NAME; at most MaxPlanned.
	Changes map[string]Operation `json:"changes,omitempty"`
	// More is how many changes there are beside those.
	More int `json:"more,omitempty"`
}

const (
	planned     = "plan"
	plannedMore = planned + ".more"
	// unchanged is the old value of what a plan would change: the plan has it, and may not show it.
	unchanged = "unchanged"
)

// Plan returns what the last run of plan would change, where the provider reports that: a RunPlan in the outputs of status.atProvider. ok is
// false where it does not, or the report has another form.
func Plan(content map[string]any) (changes []change.Change, ok bool) {
	out, _ := at(content, "status", "atProvider", outputs)
	report, _ := out[PlanOutput].(map[string]any)
	differs, ok := report["differs"].(bool)
	if !ok || !differs {
		return nil, ok
	}
	listed, _ := report["changes"].(map[string]any)
	for _, address := range slices.Sorted(maps.Keys(listed)) {
		changes = append(changes, change.Change{Path: change.Join(planned, address), Verb: change.Mutate, Old: unchanged, New: listed[address]})
	}
	if more := report["more"]; more != nil || len(changes) == 0 {
		changes = append(changes, change.Change{Path: plannedMore, Verb: change.Mutate, Old: unchanged, New: more})
	}
	return changes, true
}

// IsPlanned reports whether a path is one of what a plan would change.
func IsPlanned(path string) bool { return change.Under(path, planned) }

// PlanDestroys reports whether a difference is that of a plan which destroys something, or leaves it behind, and lists all of its changes: who
// approves it by its id has seen them.
func PlanDestroys(difference []change.Change) bool {
	destroys := false
	for _, c := range difference {
		if !IsPlanned(c.Path) || c.Path == plannedMore {
			return false
		}
		switch text, _ := c.New.(string); Operation(text) {
		case OperationDelete, OperationReplace, OperationForget:
			destroys = true
		}
	}
	return destroys
}
