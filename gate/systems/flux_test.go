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
		"Auto":        {"every plan goes through", terraformWaits, external.StateOpen, apply, true, false, "", ""},
		"AutoIdle":    {"nothing is about to be done", strings.NewReplacer("{pending: plan-main-2, lastApplied: plan-main-1}", "{}", "type: Ready, status: Unknown", `type: Ready, status: "True"`).Replace(terraformWaits), external.StateOpen, nil, false, true, "", ""},
		"AutoBehind":  {"it has not seen the last change", strings.NewReplacer("{pending: plan-main-2, lastApplied: plan-main-1}", "{}", "type: Ready, status: Unknown", `type: Ready, status: "True"`, "observedGeneration: 7", "observedGeneration: 6").Replace(terraformWaits), external.StateOpen, nil, false, false, "", ""},
		"Manual":      {"its author approves by hand", strings.Replace(terraformWaits, "approvePlan: auto, ", "", 1), external.StateFree, nil, false, false, "", ""},
		"Named":       {"or by name", strings.Replace(terraformWaits, "approvePlan: auto", "approvePlan: plan-main-2", 1), external.StateFree, nil, false, false, "", ""},
		"Disable":     {"or never", strings.Replace(terraformWaits, "approvePlan: auto", "approvePlan: disable", 1), external.StateFree, nil, false, false, "", ""},
		"PlanOnly":    {"nothing is applied", strings.Replace(terraformWaits, "spec: {", "spec: {planOnly: true, ", 1), external.StateFree, nil, false, false, "", ""},
		"Force":       {"everything is, whatever approvePlan says", strings.Replace(terraformWaits, "spec: {", "spec: {force: true, ", 1), external.StateFree, nil, false, false, "", ""},
		"Suspended":   {"nothing is about to happen", strings.Replace(closed, "spec: {", "spec: {suspend: true, ", 1), external.StateClosed, nil, false, false, "", ""},
		"Closed":      {"a commit waits", closed, external.StateClosed, apply, true, false, "", ""},
		"ClosedOwn":   {"what waits comes from the object alone", strings.Replace(closed, "lastPlannedRevision: main/2", "lastPlannedRevision: main/1", 1), external.StateClosed, apply, false, false, "", ""},
		"Destroy":     {"a plan to destroy takes destroy", strings.Replace(closed, "plan: {", "plan: {isDestroyPlan: true, ", 1), external.StateClosed, destroy, true, false, "", ""},
		"Opened":      {"it is not applied yet", opened, external.StateOpen, apply, true, false, "not applied yet", ""},
		"Superseded":  {"another plan took its place", strings.Replace(opened, "pending: plan-main-2", "pending: plan-main-3", 1), external.StateOpen, apply, true, false, "", external.OverSuperseded},
		"OverAgain":   {"its author's value was written meanwhile: what is applied is still the pending one", strings.Replace(opened, "approvePlan: plan-main-2", "approvePlan: auto", 1), external.StateOpen, apply, true, false, "not applied yet", ""},
		"Failed":      {"the controller tries again", strings.Replace(done, "conditions: [", `conditions: [{type: Apply, status: "False"}, `, 1), external.StateOpen, nil, false, false, "applying failed", ""},
		"Drift":       {"something changed outside: there is no plan for it", strings.NewReplacer("plan: {pending: plan-main-2, lastApplied: plan-main-1}", "plan: {lastApplied: plan-main-1}", "type: Ready, status: Unknown", `type: Ready, status: "False", reason: DriftDetected, message: "~ size"`).Replace(closed), external.StateClosed, apply, false, false, "", ""},
		"DriftOpened": {"it is not corrected yet", strings.NewReplacer("type: Ready, status: Unknown", `type: Ready, status: "False", reason: DriftDetected, message: "~ size"`, "approvePlan: plan-main-2", "approvePlan: auto").Replace(done), external.StateOpen, apply, false, false, "not applied yet", ""},
		"DoneBehind":  {"what it has seen is older than the opening", strings.Replace(done, "observedGeneration: 7", "observedGeneration: 6", 1), external.StateOpen, nil, false, false, "has not finished", ""},
		"Done":        {"it is applied", done, external.StateOpen, nil, false, false, "", ""},
		"NoStatus":    {"nothing was ever planned", terraformWaits[:strings.Index(terraformWaits, "status:")], external.StateOpen, nil, false, false, "", ""},
		"WrongType":   {"a value of another type approves nothing", strings.Replace(terraformWaits, "approvePlan: auto", "approvePlan: 3", 1), external.StateFree, nil, false, false, "", ""},
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
			if v.Foreign != tc.foreign || v.Idle != tc.idle || v.Over != tc.over || (v.Unconfirmed == "") != (tc.unconfirmed == "") || !strings.Contains(v.Unconfirmed, tc.unconfirmed) {
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
