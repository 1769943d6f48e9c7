package external

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// PlanAction is what a Terraform plan would do with one object, in the terms of `terraform show -json`.
type PlanAction struct {
	// Address of the resource, with the deposed key where it is about one.
	Address string `json:"address"`
	// PreviousAddress where it was moved; empty otherwise.
	PreviousAddress string `json:"previousAddress,omitempty"`
	// Mode is managed or data.
	Mode     string `json:"mode"`
	Type     string `json:"type"`
	Name     string `json:"name"`
	Module   string `json:"module,omitempty"`
	Provider string `json:"provider,omitempty"`
	Deposed  string `json:"deposed,omitempty"`
	// Actions by Terraform's names, in the order they are carried out.
	Actions []string `json:"actions"`
	// Imports an object that exists already. ImportID is its identity; empty where it has another identity, or one known
	// only on apply.
	Imports  bool   `json:"imports,omitempty"`
	ImportID string `json:"importID,omitempty"`
	// Because is Terraform's reason for the action; empty where it gives none.
	Because string `json:"because,omitempty"`
	// Reverts: the object was changed outside of Terraform, and this changes it
	// again.
	Reverts bool `json:"reverts,omitempty"`
}

// ActionInvoke represents the invocation of an action block, which Terraform plans in addition to its resource
// changes.
const ActionInvoke = "invoke"

// Operation is what the actions amount to.
type Operation string

// Operations of a plan.
const (
	OperationNone   Operation = "no-op"
	OperationRead   Operation = "read"
	OperationCreate Operation = "create"
	OperationUpdate Operation = "update"
	OperationDelete Operation = "delete"
	// OperationReplace destroys and creates, in either order.
	OperationReplace Operation = "replace"
	// OperationForget leaves the object behind and out of the state.
	OperationForget Operation = "forget"
	// OperationImport brings an object into the state and changes nothing else.
	OperationImport Operation = "import"
	// OperationMove gives an object another address in the state.
	OperationMove Operation = "move"
	// OperationInvoke runs an action block of a provider, whatever that does.
	OperationInvoke Operation = "invoke"
	// OperationUnknown is one that this version does not know. Nothing permits it.
	OperationUnknown Operation = "unknown"
)

// Operation returns the operation that the actions amount to, and the verbs of Crossplane that it takes; nil where it
// touches nothing but the state file. An operation that leaves an object behind takes Delete, one that brings an
// object under Terraform takes Create.
func (a PlanAction) Operation() (Operation, []v1alpha1.Verb) {
	adopt := func(verbs ...v1alpha1.Verb) []v1alpha1.Verb {
		if a.Imports && !slices.Contains(verbs, v1alpha1.VerbCreate) {
			return append([]v1alpha1.Verb{v1alpha1.VerbCreate}, verbs...)
		}
		return verbs
	}
	switch strings.Join(a.Actions, " ") {
	case "no-op":
		switch {
		case a.Imports:
			return OperationImport, []v1alpha1.Verb{v1alpha1.VerbCreate}
		case a.PreviousAddress != "" && a.PreviousAddress != a.Address:
			return OperationMove, nil
		}
		return OperationNone, nil
	case "read":
		return OperationRead, nil
	case "create":
		return OperationCreate, adopt(v1alpha1.VerbCreate)
	case "update":
		return OperationUpdate, adopt(v1alpha1.VerbUpdate)
	case "delete":
		return OperationDelete, []v1alpha1.Verb{v1alpha1.VerbDelete}
	case "delete create", "create delete":
		return OperationReplace, []v1alpha1.Verb{v1alpha1.VerbDelete, v1alpha1.VerbCreate}
	case "forget":
		return OperationForget, []v1alpha1.Verb{v1alpha1.VerbDelete}
	case ActionInvoke:
		return OperationInvoke, []v1alpha1.Verb{v1alpha1.VerbUpdate}
	case "create forget", "forget create":
		return OperationReplace, []v1alpha1.Verb{v1alpha1.VerbDelete, v1alpha1.VerbCreate}
	}
	return OperationUnknown, nil
}

// PlanTargetKeys are the keys of an externalTarget that a plan's actions have.
var PlanTargetKeys = []string{"address", "module", "name", "provider", "resource", "type"}

// targets returns the targets of an action, for allowances: its address, module ("" for the root), name, provider and
// resource type, which is both resource and type. The provider is its full address and, where the allowance names no
// host or namespace, its last part.
func (a PlanAction) targets() []map[string]string {
	t := func(provider string) map[string]string {
		return map[string]string{"address": a.Address, "module": a.Module, "name": a.Name, "provider": provider, "resource": a.Type, "type": a.Type}
	}
	return []map[string]string{t(a.Provider), t(a.Provider[strings.LastIndex(a.Provider, "/")+1:])}
}

// PlanVerdict about one action of a plan.
type PlanVerdict struct {
	PlanAction
	Operation Operation `json:"operation"`
	// Verbs it takes; empty for one that touches nothing but the state file.
	Verbs   []v1alpha1.Verb `json:"verbs,omitempty"`
	Allowed bool            `json:"allowed"`
	// By are the allowances that permit it, by place, initiator and origin.
	By []string `json:"by,omitempty"`
	// Missing verbs that no allowance permits.
	Missing []v1alpha1.Verb `json:"missing,omitempty"`
	// Why it is refused, as text; empty where it is allowed.
	Why string `json:"why,omitempty"`
}

// CheckPlan decides about a plan action by action (KR-08-41): each verb that an action takes must be permitted for
// it, by one allowance or by several.
func CheckPlan(actions []PlanAction, permissions []Permission) []PlanVerdict {
	out := make([]PlanVerdict, 0, len(actions))
	for _, a := range actions {
		out = append(out, a.check(permissions))
	}
	return out
}

func (a PlanAction) check(permissions []Permission) PlanVerdict {
	v := PlanVerdict{PlanAction: a}
	v.Operation, v.Verbs = a.Operation()
	if v.Operation == OperationUnknown {
		v.Why = fmt.Sprintf("the action %q is not known to this version", strings.Join(a.Actions, ","))
		return v
	}
	for _, wanted := range v.Verbs {
		i := slices.IndexFunc(permissions, func(p Permission) bool {
			return slices.ContainsFunc(a.targets(), func(t map[string]string) bool { return p.Permits(verb.Any, wanted, t) })
		})
		if i < 0 {
			v.Missing = append(v.Missing, wanted)
			continue
		}
		if by := permissions[i].describe(i); !slices.Contains(v.By, by) {
			v.By = append(v.By, by)
		}
	}
	v.Allowed = len(v.Missing) == 0
	if !v.Allowed {
		v.By, v.Why = nil, "no allowance permits "+words(v.Missing)
	}
	return v
}

// words returns a clause for verbs, with the names that Terraform has for them.
func words(verbs []v1alpha1.Verb) string {
	parts := make([]string, 0, len(verbs))
	for _, v := range verbs {
		if v == v1alpha1.VerbDelete {
			parts = append(parts, "Delete (destroy)")
			continue
		}
		parts = append(parts, string(v)+" (apply)")
	}
	return strings.Join(parts, " and ")
}

// describe returns a clause for an allowance in a message: its place in the list, its initiator and origin.
func (p Permission) describe(i int) string {
	s := fmt.Sprintf("allowance %d", i+1)
	if p.Initiator != "" {
		s += " of " + p.Initiator
	}
	if p.Origin != "" {
		s += " by " + p.Origin
	}
	return s
}
