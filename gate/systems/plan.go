package systems

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/kausality-io/function-kausality/admission/external"
)

// Plan is what `terraform show -json` prints of a plan, as far as it is checked.
type Plan struct {
	// TerraformVersion that made it; empty where that is not recorded.
	TerraformVersion string `json:"terraformVersion,omitempty"`
	// Actions on resources, as the plan lists them.
	Actions []external.PlanAction `json:"actions"`
	// Outputs that change, sorted.
	Outputs []string `json:"outputs,omitempty"`
	// Drifted are the objects that were changed outside of Terraform, sorted.
	Drifted []string `json:"drifted,omitempty"`
	// Deferred are the changes that another run will plan, sorted.
	Deferred []string `json:"deferred,omitempty"`
}

// supplement is what terraform-json does not read.
type supplement struct {
	Errored         bool `json:"errored"`
	ResourceChanges []struct {
		ActionReason string `json:"action_reason"`
	} `json:"resource_changes"`
}

// ReadPlan reads the output of `terraform show -json PLANFILE`, formats 0.1 to
// 1.x, of Terraform or OpenTofu. It fails on anything else, a state among it,
// and on a plan that is not to be applied since planning failed.
func ReadPlan(raw []byte) (Plan, error) {
	var shape map[string]json.RawMessage
	if err := json.Unmarshal(raw, &shape); err != nil {
		return Plan{}, fmt.Errorf("cannot read the plan: %w; give the output of terraform show -json", err)
	}
	if _, ok := shape["planned_values"]; !ok && shape["resource_changes"] == nil {
		return Plan{}, errors.New("cannot read the plan: it has neither planned_values nor resource_changes; give the output of terraform " +
			"show -json for a plan file, not for a state")
	}
	var p tfjson.Plan
	var more supplement
	if err := p.UnmarshalJSON(raw); err != nil {
		return Plan{}, fmt.Errorf("cannot read the plan: %w", err)
	}
	if err := json.Unmarshal(raw, &more); err != nil {
		return Plan{}, fmt.Errorf("cannot read the plan: %w", err)
	}
	if more.Errored {
		return Plan{}, errors.New("cannot judge the plan: planning failed, and it is incomplete")
	}
	return summarize(&p, more)
}

// summarize a plan: everything that is judged, in the order of the plan, and sorted
// where Terraform has no order.
func summarize(p *tfjson.Plan, more supplement) (Plan, error) {
	out := Plan{TerraformVersion: p.TerraformVersion, Actions: []external.PlanAction{}}
	for _, d := range p.ResourceDrift {
		if d != nil {
			out.Drifted = append(out.Drifted, d.Address)
		}
	}
	slices.Sort(out.Drifted)
	for i, c := range p.ResourceChanges {
		a, err := action(c)
		if err != nil {
			return Plan{}, err
		}
		if i < len(more.ResourceChanges) {
			a.Because = more.ResourceChanges[i].ActionReason
		}
		a.Reverts = slices.Contains(out.Drifted, c.Address) && !c.Change.Actions.NoOp()
		out.Actions = append(out.Actions, a)
	}
	for _, a := range p.ActionInvocations {
		if a == nil {
			return Plan{}, errors.New("cannot read the plan: an action invocation is null")
		}
		out.Actions = append(out.Actions, external.PlanAction{
			Address: a.Address, Mode: "action", Type: a.Type, Name: a.Name, Provider: a.ProviderName, Actions: []string{external.ActionInvoke},
			Module: moduleOf(a.Address, "action."+a.Type),
		})
	}
	for name, c := range p.OutputChanges {
		if c != nil && !c.Actions.NoOp() {
			out.Outputs = append(out.Outputs, name)
		}
	}
	for _, d := range p.DeferredChanges {
		if d != nil && d.ResourceChange != nil {
			out.Deferred = append(out.Deferred, d.ResourceChange.Address)
		}
	}
	slices.Sort(out.Outputs)
	slices.Sort(out.Deferred)
	return out, nil
}

// action on a resource; an error where the plan is not one that Terraform makes.
func action(c *tfjson.ResourceChange) (external.PlanAction, error) {
	if c == nil {
		return external.PlanAction{}, errors.New("cannot read the plan: a resource change is null")
	}
	if c.Address == "" || c.Change == nil || len(c.Change.Actions) == 0 {
		return external.PlanAction{}, fmt.Errorf("cannot read the plan: the resource change of %q has no address or no actions", c.Address)
	}
	a := external.PlanAction{
		Address: c.Address, PreviousAddress: c.PreviousAddress, Mode: string(c.Mode), Type: c.Type, Name: c.Name,
		Module: c.ModuleAddress, Provider: c.ProviderName, Deposed: c.DeposedKey,
	}
	for _, w := range c.Change.Actions {
		a.Actions = append(a.Actions, string(w))
	}
	if i := c.Change.Importing; i != nil {
		a.Imports, a.ImportID = true, i.ID
	}
	return a, nil
}

// moduleOf an address that ends in a part of the root module's form; "" for the
// root module.
func moduleOf(address, part string) string {
	i := strings.LastIndex(address, part)
	if i <= 0 {
		return ""
	}
	return strings.TrimSuffix(address[:i], ".")
}
