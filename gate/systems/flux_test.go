package systems

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const terraformWaits = `
apiVersion: infra.contrib.fluxcd.io/v1alpha2
kind: Terraform
metadata: {name: net, namespace: shop, generation: 7}
spec: {approvePlan: auto, interval: 10m, sourceRef: {kind: GitRepository, name: infra}}
status:
  observedGeneration: 7
  lastAppliedRevision: main/1
  lastPlannedRevision: main/2
  plan: {pending: plan-main-2, lastApplied: plan-main-1}
  conditions: [{type: Ready, status: Unknown}, {type: Plan, status: "True"}]
`

// TestFlux covers KR-08-42.
func TestFlux(t *testing.T) {
	const masked = `{name: net, namespace: shop, generation: 7, annotations: {kausality.io/external-author: '"auto"'`
	closed := strings.NewReplacer("{name: net, namespace: shop, generation: 7", masked+"}", "approvePlan: auto", `approvePlan: ""`).Replace(terraformWaits)
	opened := strings.NewReplacer("{name: net, namespace: shop, generation: 7", masked+`, kausality.io/gate: '{"state":"open","generation":7,"at":null}'}`,
		"approvePlan: auto", `approvePlan: plan-main-2`).Replace(terraformWaits)
	done := strings.Replace(opened, "plan: {pending: plan-main-2, lastApplied: plan-main-1}", "plan: {lastApplied: plan-main-2}", 1)
	apply, destroy := []v1alpha1.Verb{"apply"}, []v1alpha1.Verb{"destroy"}
	cases := map[string]struct {
		reason, object string
		state          external.State
		verbs          []v1alpha1.Verb
		foreign, idle  bool
		unconfirmed    string
		over           string
	}{
		"Auto": {reason: "every plan goes through", object: terraformWaits, state: external.StateOpen, verbs: apply,
			foreign: true},
		"AutoIdle": {reason: "nothing is about to be done",
			object: strings.NewReplacer("{pending: plan-main-2, lastApplied: plan-main-1}", "{}", "type: Ready, status: Unknown",
				`type: Ready, status: "True"`).Replace(terraformWaits),
			state: external.StateOpen, idle: true},
		"AutoBehind": {reason: "it has not seen the last change",
			object: strings.NewReplacer("{pending: plan-main-2, lastApplied: plan-main-1}", "{}", "type: Ready, status: Unknown",
				`type: Ready, status: "True"`, "observedGeneration: 7", "observedGeneration: 6").Replace(terraformWaits),
			state: external.StateOpen},
		"Manual": {reason: "its author approves by hand", object: strings.Replace(terraformWaits, "approvePlan: auto, ", "", 1),
			state: external.StateFree},
		"Named": {reason: "or by name",
			object: strings.Replace(terraformWaits, "approvePlan: auto", "approvePlan: plan-main-2", 1), state: external.StateFree},
		"Disable": {reason: "or never", object: strings.Replace(terraformWaits, "approvePlan: auto", "approvePlan: disable", 1),
			state: external.StateFree},
		"PlanOnly": {reason: "nothing is applied",
			object: strings.Replace(terraformWaits, "spec: {", "spec: {planOnly: true, ", 1), state: external.StateFree},
		"Force": {reason: "everything is, whatever approvePlan is",
			object: strings.Replace(terraformWaits, "spec: {", "spec: {force: true, ", 1), state: external.StateFree},
		"Suspended": {reason: "nothing is about to happen", object: strings.Replace(closed, "spec: {", "spec: {suspend: true, ", 1),
			state: external.StateClosed},
		"Closed": {reason: "a commit waits", object: closed, state: external.StateClosed, verbs: apply, foreign: true},
		"ClosedOwn": {reason: "what waits comes from the object alone",
			object: strings.Replace(closed, "lastPlannedRevision: main/2", "lastPlannedRevision: main/1", 1), state: external.StateClosed,
			verbs: apply},
		"Destroy": {reason: "a plan to destroy takes destroy",
			object: strings.Replace(closed, "plan: {", "plan: {isDestroyPlan: true, ", 1), state: external.StateClosed, verbs: destroy, foreign: true},
		"Opened": {reason: "it is not applied yet", object: opened, state: external.StateOpen, verbs: apply, foreign: true,
			unconfirmed: "not applied yet"},
		"Superseded": {reason: "another plan took its place",
			object: strings.Replace(opened, "pending: plan-main-2", "pending: plan-main-3", 1), state: external.StateOpen, verbs: apply, foreign: true,
			over: external.OverSuperseded},
		"OverAgain": {reason: "its author's value was written meanwhile: what is applied is still the pending one",
			object: strings.Replace(opened, "approvePlan: plan-main-2", "approvePlan: auto", 1), state: external.StateOpen, verbs: apply,
			foreign: true, unconfirmed: "not applied yet"},
		"Failed": {reason: "the controller tries again",
			object: strings.Replace(done, "conditions: [", `conditions: [{type: Apply, status: "False"}, `, 1), state: external.StateOpen,
			unconfirmed: "applying failed"},
		"Drift": {reason: "something changed outside: there is no plan for it",
			object: strings.NewReplacer("plan: {pending: plan-main-2, lastApplied: plan-main-1}", "plan: {lastApplied: plan-main-1}",
				"type: Ready, status: Unknown", `type: Ready, status: "False", reason: DriftDetected, message: "~ size"`).Replace(closed),
			state: external.StateClosed, verbs: apply},
		"DriftOpened": {reason: "it is not corrected yet",
			object: strings.NewReplacer("type: Ready, status: Unknown",
				`type: Ready, status: "False", reason: DriftDetected, message: "~ size"`, "approvePlan: plan-main-2", "approvePlan: auto").Replace(done),
			state: external.StateOpen, verbs: apply, unconfirmed: "not applied yet"},
		"DoneBehind": {reason: "what it has seen is older than the opening",
			object: strings.Replace(done, "observedGeneration: 7", "observedGeneration: 6", 1), state: external.StateOpen,
			unconfirmed: "has not finished"},
		"Done": {reason: "it is applied", object: done, state: external.StateOpen},
		"NoStatus": {reason: "nothing was ever planned", object: terraformWaits[:strings.Index(terraformWaits, "status:")],
			state: external.StateOpen},
		"WrongType": {reason: "a value of another type approves nothing",
			object: strings.Replace(terraformWaits, "approvePlan: auto", "approvePlan: 3", 1), state: external.StateFree},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := Flux{}.Look(parse(t, tc.object))
			if v.State != tc.state || (v.State == external.StateFree) != (v.Why != "") {
				t.Errorf("%s: %+v", tc.reason, v)
			}
			if diff := cmp.Diff(tc.verbs, v.Verbs); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if v.Foreign != tc.foreign || v.Idle != tc.idle || v.Over != tc.over || (v.Unconfirmed == "") != (tc.unconfirmed == "") ||
				!strings.Contains(v.Unconfirmed, tc.unconfirmed) {
				t.Errorf("%s: %+v", tc.reason, v)
			}
		})
	}
	edit := Flux{}.Open(parse(t, closed), v1alpha1.Gate{}, byHans)
	if diff := cmp.Diff(map[string]any{"spec": map[string]any{"approvePlan": "plan-main-2"}}, edit); diff != "" {
		t.Errorf("exactly the pending plan: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"spec": map[string]any{"approvePlan": "auto"}}, Flux{}.Open(parse(t, done), v1alpha1.Gate{}, byHans)); diff != "" {
		t.Errorf("drift has no plan: -want, +got:\n%s", diff)
	}
}
