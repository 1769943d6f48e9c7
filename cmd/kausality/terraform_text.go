package main

import (
	"fmt"
	"strings"

	"github.com/kausality-io/function-kausality/admission/external"
)

// marks of the operations, as Terraform itself prints them.
var marks = map[external.Operation]string{
	external.OperationRead: "<=", external.OperationCreate: "+", external.OperationUpdate: "~", external.OperationDelete: "-",
	external.OperationReplace: "-/+", external.OperationForget: ".", external.OperationImport: "&", external.OperationMove: "->",
	external.OperationInvoke: "!", external.OperationUnknown: "?",
}

// planText is a line for each action that does something, then what else the
// plan tells, then the sum.
func planText(r planReport) string {
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
		{r.Drifted, "changed outside of Terraform since its last run; the state takes it over"},
		{r.Outputs, "output changes; nothing but the state does"},
		{r.Deferred, "deferred to a later run, which is to be checked then"},
	} {
		for _, n := range list.names {
			fmt.Fprintf(&b, "note        %s: %s\n", n, list.text)
		}
	}
	for _, k := range r.UnknownTargetKeys {
		fmt.Fprintf(&b, "note        an allowance names the target key %q, which no action of a plan has: it permits nothing\n", k)
	}
	fmt.Fprintf(&b, "Plan: %d to judge, %d not allowed; %d without change.\n", len(r.Actions)-idle, refused, idle)
	return b.String()
}

func verdict(v external.PlanVerdict) string {
	switch {
	case !v.Allowed:
		return "refused"
	case len(v.Verbs) == 0:
		return "free"
	}
	return "allowed"
}

// remark on an action: where it comes from, why it is done, who allowed it or
// why it is refused.
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
