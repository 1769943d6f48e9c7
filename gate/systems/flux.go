package systems

import (
	"cmp"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Flux is the tofu-controller for Flux: Terraform objects of
// infra.contrib.fluxcd.io. Its author's approvePlan "auto" is masked with "",
// which makes the controller plan and wait; an opening writes the id of the
// pending plan, which the controller applies and nothing else. (read,
// tofu-controller v0.15: shouldApply, reconcile, finalize.)
type Flux struct{}

const (
	fluxAuto    = "auto"
	fluxDisable = "disable"
	// fluxDrifted is the reason of Ready where the external resources differ from what
	// was applied last: it changed outside, or the object did.
	fluxDrifted = "DriftDetected"
)

// Name returns "tofu-controller".
func (Flux) Name() string { return "tofu-controller" }

// Field returns approvePlan.
func (Flux) Field() string { return "spec.approvePlan" }

// Handles Terraform objects, in all versions.
func (Flux) Handles(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "infra.contrib.fluxcd.io" && gvk.Kind == "Terraform"
}

// Author returns the approvePlan that its author wrote; null for none. What is
// written over the mask, other than what the gate itself opened for, is the
// author's new value.
func (Flux) Author(o *unstructured.Unstructured) json.RawMessage {
	stored := field(o, "spec", "approvePlan")
	was, masked := remembered(o)
	gate := mask.ParseGate(o.GetAnnotations())
	if masked && (stored == nil || stored == "" || gate.State == v1alpha1.GateOpen && stored != fluxAuto) {
		return was
	}
	return quote(stored)
}

// Look at a Terraform object.
func (f Flux) Look(o *unstructured.Unstructured) external.View {
	v := external.View{Known: !flag(o, "spec", "disableDriftDetection") && !flag(o, "spec", "suspend")}
	_, v.Masked = remembered(o)
	pending, stored := text(o, "status", "plan", "pending"), text(o, "spec", "approvePlan")
	var author string
	if json.Unmarshal(f.Author(o), &author) != nil {
		author = "" // a value of another type approves nothing
	}
	if v.Why = fluxFree(o, author); v.Why != "" {
		v.State = external.StateFree
		return v
	}
	v.State = external.StateOpen
	if stored == "" {
		v.State = external.StateClosed
	}
	observed := number(o, "status", "observedGeneration")
	v.Current = observed >= o.GetGeneration()
	ready, reason, message := condition(o, "Ready")
	v.Idle = ready == "True" && pending == "" && v.Current
	if flag(o, "spec", "suspend") {
		return v
	}
	if pending != "" {
		f.difference(o, pending, &v)
	} else if reason == fluxDrifted && ready == "False" {
		f.drift(o, message, &v)
	}
	f.progress(o, pending, stored, observed, &v)
	return v
}

// fluxFree returns why there is no gate to keep; "" where there is.
func fluxFree(o *unstructured.Unstructured, author string) string {
	switch {
	case flag(o, "spec", "force"):
		return "spec.force applies every plan; nothing can be held while it is set"
	case flag(o, "spec", "planOnly"):
		return "spec.planOnly applies no plan"
	case author == fluxDisable:
		return "approvePlan disable applies no plan"
	case author != fluxAuto:
		return "its author approves each plan in spec.approvePlan"
	}
	return ""
}

// difference is the pending plan: its content is stored in a Secret alone.
func (Flux) difference(o *unstructured.Unstructured, pending string, v *external.View) {
	applied := text(o, "status", "lastAppliedRevision")
	v.Difference = []change.Change{{Path: "status.plan.pending", Verb: change.Mutate, Old: applied, New: pending}}
	v.Verbs = []v1alpha1.Verb{verb.Apply}
	if flag(o, "status", "plan", "isDestroyPlan") {
		v.Difference = append(v.Difference, change.Change{Path: "status.plan.isDestroyPlan", Verb: change.Mutate, Old: false, New: true})
		v.Verbs = []v1alpha1.Verb{verb.Destroy}
	}
	v.Foreign = applied != "" && applied != text(o, "status", "lastPlannedRevision")
}

// drift that the controller found. While approvePlan is empty it makes no plan
// for it, and reports only in Ready what differs.
func (Flux) drift(o *unstructured.Unstructured, message string, v *external.View) {
	v.Difference = []change.Change{{Path: "status.conditions[Ready]", Verb: change.Mutate, Old: message, New: "as in " +
		text(o, "status", "lastAppliedRevision")}}
	v.Verbs = []v1alpha1.Verb{verb.Apply}
}

// progress of an opening. The controller clears the pending plan when it applied
// it, and when applying failed; it plans and tries again then.
func (Flux) progress(o *unstructured.Unstructured, pending, stored string, observed int64, v *external.View) {
	gate := mask.ParseGate(o.GetAnnotations())
	applied, _, _ := condition(o, "Apply")
	switch {
	case gate.State != v1alpha1.GateOpen:
	case pending != "" && pending != stored && stored != fluxAuto:
		v.Over = external.OverSuperseded
	case pending != "":
		v.Unconfirmed = "the plan " + pending + " is not applied yet"
	case observed < gate.Generation:
		v.Unconfirmed = "the controller has not finished the generation that approves the plan"
	case applied == "False":
		v.Unconfirmed = "applying failed, and the controller tries again"
	case len(v.Difference) > 0:
		v.Unconfirmed = "what differs is not applied yet"
	}
}

// Open for exactly the pending plan. Drift has no plan to name: auto makes one
// and applies it, and the gate closes with that.
func (Flux) Open(o *unstructured.Unstructured, _ v1alpha1.Gate, _ external.Provenance) map[string]any {
	return map[string]any{"spec": map[string]any{"approvePlan": cmp.Or(text(o, "status", "plan", "pending"), fluxAuto)}}
}

// Close for every plan: they are made and wait.
func (Flux) Close(*unstructured.Unstructured) map[string]any {
	return map[string]any{"spec": map[string]any{"approvePlan": ""}}
}

// Restore what the author wrote.
func (f Flux) Restore(o *unstructured.Unstructured) map[string]any {
	return map[string]any{"spec": map[string]any{"approvePlan": f.Author(o)}}
}
