package checkplan

import (
	"fmt"
	"strings"

	"github.com/kausality-io/function-kausality/admission/external"
)

// marks of the operations, as Terraform prints them.
var marks = map[external.Operation]string{
	external.OperationRead: "<=", external.OperationCreate: "+", external.OperationUpdate: "~", external.OperationDelete: "-",
	external.OperationReplace: "-/+", external.OperationForget: ".", external.OperationImport: "&", external.OperationMove: "->",
	external.OperationInvoke: "!", external.OperationUnknown: "?",
}

// text returns a line for each action that has an effect, then notes about the plan
// and the allowances, then the sum.
func text(r report) string {
	var b strings.Builder
	idle, refused := 0, 0
	for _, v := range r.Actions {
		if v.Operation == external.OperationNone {
			idle++
			continue
		}
		if !v.Allowed {
			refused++
		}
		fmt.Fprintf(&b, "%-7s %-3s %-7s %s%s\n", verdict(v), marks[v.Operation], v.Operation, v.Address, remark(v))
	}
	for _, list := range []struct {
		names []string
		text  string
	}{
		{r.Drifted, "changed outside of Terraform since its last run; the state adopts the change"},
		{r.Outputs, "the output changes; only the state is written"},
		{r.Deferred, "deferred to a later run, whose plan needs its own check"},
	} {
		for _, n := range list.names {
			fmt.Fprintf(&b, "note        %s: %s\n", n, list.text)
		}
	}
	if r.Note != "" {
		fmt.Fprintf(&b, "note        %s\n", r.Note)
	}
	for _, k := range r.UnknownTargetKeys {
		fmt.Fprintf(&b, "note        an allowance names the target key %q, which no action of a plan has; it permits nothing\n", k)
	}
	fmt.Fprintf(&b, "Plan: %d to check, %d not allowed; %d without change.\n", len(r.Actions)-idle, refused, idle)
	return b.String()
}

// verdict returns the verdict of an action in one word; free needs no allowance.
func verdict(v external.PlanVerdict) string {
	switch {
	case !v.Allowed:
		return "refused"
	case len(v.Verbs) == 0:
		return "free"
	}
	return "allowed"
}

// remark returns the remark on an action in parentheses: where it comes from, why it is done, which
// allowances cover it or why it is refused; empty for none.
func remark(v external.PlanVerdict) string {
	var parts []string
	if v.PreviousAddress != "" && v.PreviousAddress != v.Address {
		parts = append(parts, "moved from "+v.PreviousAddress)
	}
	if v.Deposed != "" {
		parts = append(parts, "deposed "+v.Deposed)
	}
	if v.Imports && v.Operation != external.OperationImport {
		parts = append(parts, "imported")
	}
	if v.Because != "" {
		parts = append(parts, v.Because)
	}
	if v.Reverts {
		parts = append(parts, "reverts a change made outside")
	}
	if len(v.By) > 0 {
		parts = append(parts, strings.Join(v.By, ", "))
	}
	if v.Why != "" {
		parts = append(parts, v.Why)
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}
