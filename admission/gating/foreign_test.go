package gating

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var pendingPlan = []change.Change{{Path: "status.plan.pending", Verb: change.Mutate, Old: "main/1", New: "plan-main-2"}}

// waiting is a plan that waits behind a closed gate.
func waiting() external.View {
	return external.View{State: external.StateClosed, Masked: true, Known: true, Current: true, Difference: pendingPlan, Verbs: []v1alpha1.Verb{external.VerbApply}}
}

func externalGating(o *unstructured.Unstructured, v external.View) Foreign {
	s := parent.Sum(o, parent.RoleNone)
	return Foreign{View: v, System: "tofu-controller", Managed: Managed{MR: s, Mode: v1alpha1.ModeEnforce, Deadline: time.Hour, User: "gate", Now: noon,
		Holders: []identity.Holder{{State: s}}}}
}

func TestExternalGating(t *testing.T) {
	closed6 := `{"state":"closed","generation":6,"at":"2026-01-02T11:30:00Z"}`
	closed4 := `{"state":"closed","generation":4,"at":"2026-01-02T11:30:00Z"}`
	openApply := `{"state":"open","verbs":["apply"],"generation":6,"at":"2026-01-02T11:30:00Z"}`
	openClaim := `{"state":"open","verbs":["apply"],"generation":6,"at":"2026-01-02T11:30:00Z","claim":"c1"}`
	g := v1alpha1.AnnotationKeyGate
	with := func(kv ...string) map[string]string {
		out := map[string]string{}
		for ; len(kv) > 1; kv = kv[2:] {
			out[kv[0]] = kv[1]
		}
		return out
	}
	terraform := parent.Sum(terraformObject(nil), parent.RoleNone)
	id := identity.DriftID(terraform, terraform, pendingPlan)
	allowance := func(verbs string, generation string) string {
		return `[{"relation":"External","verbs":[` + verbs + `],"generation":` + generation + `}]`
	}
	cases := map[string]struct {
		reason      string
		annotations map[string]string
		view        func(*external.View)
		change      func(*Foreign)
		want        Action
		// is the gate's reason, or a part of why nothing is done.
		is string
	}{
		"Deleting":       {"nothing touches what is being deleted", with(g, openApply), nil, func(g *Foreign) { at := noon; g.MR.DeletedAt = &at }, ActionNone, "being deleted"},
		"Install":        {"an idle object is closed", nil, func(v *external.View) { v.Masked, v.Idle, v.State = false, true, external.StateOpen }, nil, ActionInstall, v1alpha1.GateReasonInstalled},
		"InstallBusy":    {"not in the middle of something", nil, func(v *external.View) { v.Masked, v.State = false, external.StateOpen }, nil, ActionNone, "not idle"},
		"Free":           {"its author lets nothing through", nil, func(v *external.View) { v.Masked, v.State, v.Why = false, external.StateFree, "by hand" }, nil, ActionNone, "by hand"},
		"FreeMasked":     {"he changed his mind", with(g, closed6), func(v *external.View) { v.State = external.StateFree }, nil, ActionRestore, ""},
		"Log":            {"log mode restores", with(g, closed6), nil, func(g *Foreign) { g.Mode = v1alpha1.ModeLog }, ActionRestore, ""},
		"LogUnfinished":  {"not before it is known that what it was open by is finished", with(g, `{"state":"closed","generation":6,"at":"2026-01-02T11:30:00Z","claim":"c1"}`), nil, func(g *Foreign) { g.Mode = v1alpha1.ModeLog }, ActionNone, "read live"},
		"LogUnmasked":    {"where there is something to restore", nil, func(v *external.View) { v.Masked = false }, func(g *Foreign) { g.Mode = v1alpha1.ModeLog }, ActionNone, "mode is log"},
		"LogOpen":        {"an opening by approval is closed first, so that the approval is finished", with(g, openClaim), nil, func(g *Foreign) { g.Mode = v1alpha1.ModeLog }, ActionClose, v1alpha1.GateReasonRestored},
		"Remask":         {"its author's value was written again", with(g, closed6), func(v *external.View) { v.State = external.StateOpen }, nil, ActionMask, ""},
		"Nothing":        {"nothing would be done", with(g, closed6), func(v *external.View) { v.Difference = nil }, nil, ActionNone, "it is closed"},
		"ChangedNothing": {"hans's change takes nothing outside: what comes later is not its", with(g, closed4), func(v *external.View) { v.Difference, v.Verbs, v.Idle = nil, nil, true }, nil, ActionClose, v1alpha1.GateReasonNothing},
		"ChangedUnseen":  {"it is not known yet whether it does", with(g, closed4), func(v *external.View) { v.Difference, v.Verbs, v.Idle, v.Current = nil, nil, true, false }, nil, ActionNone, "it is closed"},
		"ChangedRight":   {"right after the gate moved", with(g, `{"state":"closed","generation":5,"at":"2026-01-02T11:30:00Z"}`), nil, nil, ActionOpen, "Changed"},
		"Waits":          {"nobody asked for it: it is reported", with(g, closed6), nil, nil, ActionNone, "no approval covers"},
		"Busy":           {"one after the other", with(g, closed4), func(v *external.View) { v.Busy = "an operation goes on" }, nil, ActionNone, "an operation goes on"},
		"Stale":          {"what is known is about an older version", with(g, closed4), func(v *external.View) { v.Current = false }, nil, ActionNone, "not known yet"},
		"Changed":        {"hans changed it since the gate moved", with(g, closed4), nil, nil, ActionOpen, "Changed"},
		"ChangedForeign": {"but a commit waited before: it is not carried along", with(g, closed4), func(v *external.View) { v.Foreign = true }, nil, ActionNone, "no approval covers"},
		"ChangedDestroy": {"and no change destroys", with(g, closed4), func(v *external.View) { v.Verbs = []v1alpha1.Verb{external.VerbDestroy} }, nil, ActionNone, "no approval covers"},
		"ChangedPrune":   {"nor prunes", with(g, closed4), func(v *external.View) { v.Verbs = []v1alpha1.Verb{external.VerbSync, external.VerbRemove} }, nil, ActionNone, "no approval covers"},
		"ById":           {"approved by its id", with(g, closed6, v1alpha1.AnnotationKeyApprovePrefix+id, "once"), nil, nil, ActionOpen, v1alpha1.GateReasonApproved},
		"Frozen":         {"nobody opens what is frozen", with(g, closed6, v1alpha1.AnnotationKeyApprovePrefix+id, "once", v1alpha1.AnnotationKeyFreeze, "true"), nil, nil, ActionNone, "was frozen"},
		"Rejected":       {"or rejected", with(g, closed6, v1alpha1.AnnotationKeyApprovePrefix+id, "once", v1alpha1.AnnotationKeyRejections, `[{"kind":"*","name":"*","reason":"audit"}]`), nil, nil, ActionNone, "audit"},
		"ByOtherId":      {"another difference was", with(g, closed6, v1alpha1.AnnotationKeyApprovePrefix+"0123456789abcdef", "once"), nil, nil, ActionNone, "no approval covers"},
		"ByVerb":         {"by the system's verb", with(g, closed6, v1alpha1.AnnotationKeyApprovals, `[{"kind":"Terraform","name":"net","relation":"External","verbs":["apply"],"mode":"always"}]`), nil, nil, ActionOpen, v1alpha1.GateReasonApproved},
		"ByCrossplane":   {"or Crossplane's", with(g, closed6, v1alpha1.AnnotationKeyApprovals, `[{"kind":"Terraform","name":"net","relation":"External","verbs":["Create","Update"],"mode":"always"}]`), nil, nil, ActionOpen, v1alpha1.GateReasonApproved},
		"ByHalf":         {"Update alone creates nothing", with(g, closed6, v1alpha1.AnnotationKeyApprovals, `[{"kind":"Terraform","name":"net","relation":"External","verbs":["Update"],"mode":"always"}]`), nil, nil, ActionNone, "no approval covers"},
		"ByApplyDestroy": {"apply is no destroy", with(g, closed6, v1alpha1.AnnotationKeyApprovals, `[{"kind":"Terraform","name":"net","relation":"External","verbs":["apply"],"mode":"always"}]`),
			func(v *external.View) { v.Verbs = []v1alpha1.Verb{external.VerbDestroy} }, nil, ActionNone, "no approval covers"},
		"ByChild":          {"an approval about Kubernetes objects is none", with(g, closed6, v1alpha1.AnnotationKeyApprovals, `[{"kind":"Terraform","name":"net","mode":"always"}]`), nil, nil, ActionNone, "no approval covers"},
		"Allowed":          {"an allowance that came since", with(g, closed6, v1alpha1.AnnotationKeyAllowances, allowance(`"apply"`, "7")), nil, nil, ActionOpen, "Allowed"},
		"AllowedConsumed":  {"one of before the gate moved is used", with(g, closed6, v1alpha1.AnnotationKeyAllowances, allowance(`"apply"`, "5")), nil, nil, ActionNone, "no approval covers"},
		"AllowedTimeless":  {"one without a generation would open for ever", with(g, closed6, v1alpha1.AnnotationKeyAllowances, allowance(`"apply"`, "0")), nil, nil, ActionNone, "no approval covers"},
		"AllowedHalf":      {"it must hold everything", with(g, closed6, v1alpha1.AnnotationKeyAllowances, allowance(`"sync"`, "7")), func(v *external.View) { v.Verbs = []v1alpha1.Verb{external.VerbSync, external.VerbRemove} }, nil, ActionNone, "no approval covers"},
		"AllowedGarbage":   {"what is not understood permits nothing", with(g, closed6, v1alpha1.AnnotationKeyAllowances, `{`), nil, nil, ActionNone, "no approval covers"},
		"AllowedElsewhere": {"for another system", with(g, closed6, v1alpha1.AnnotationKeyAllowances, `[{"relation":"External","verbs":["*"],"generation":7,"externalTarget":{"system":"Argo CD"}}]`), nil, nil, ActionNone, "no approval covers"},
		"Going":            {"it is not done", with(g, openApply), func(v *external.View) { v.State, v.Unconfirmed = external.StateOpen, "not applied" }, nil, ActionNone, "not applied"},
		"Done":             {"it is", with(g, openApply), func(v *external.View) { v.State = external.StateOpen }, nil, ActionClose, v1alpha1.GateReasonConfirmed},
		"Expired":          {"it never was", with(g, openApply), func(v *external.View) { v.State, v.Unconfirmed = external.StateOpen, "not applied" }, func(g *Foreign) { g.Now = noon.Add(time.Hour) }, ActionClose, v1alpha1.GateReasonExpired},
		"Superseded":       {"it will not be", with(g, openApply), func(v *external.View) { v.State, v.Over = external.StateOpen, external.OverSuperseded }, nil, ActionClose, external.OverSuperseded},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := waiting()
			if tc.view != nil {
				tc.view(&v)
			}
			g := externalGating(terraformObject(tc.annotations), v)
			if tc.change != nil {
				tc.change(&g)
			}
			d := g.Decide()
			if again := g.Decide(); !reflect.DeepEqual(d, again) {
				t.Errorf("same input, other decision:\n%+v\n%+v", d, again)
			}
			if d.Action != tc.want || d.Gate.Reason != tc.is && !strings.Contains(d.Why, tc.is) {
				t.Errorf("%s: %+v", tc.reason, d)
			}
			if (d.Drift != nil) != slices.Contains([]string{"no approval covers", "was frozen", "audit"}, tc.is) {
				t.Errorf("%s: reported: %+v", tc.reason, d.Drift)
			}
			if d.Action == ActionOpen && (d.Gate.Generation != 8 || !d.Gate.At.Time.Equal(approval.Stamp(noon).Time) || !reflect.DeepEqual(d.Gate.Verbs, v.Verbs)) {
				t.Errorf("%s: gate %+v", tc.reason, d.Gate)
			}
		})
	}
}

// A once approval is claimed before the gate opens, the same claim opens after a
// crash, and a closed gate that shows it finishes it.
func TestExternalGatingClaims(t *testing.T) {
	closed := `{"state":"closed","generation":6,"at":"2026-01-02T11:30:00Z"}`
	o := terraformObject(map[string]string{v1alpha1.AnnotationKeyGate: closed})
	id := identity.DriftID(parent.Sum(o, parent.RoleNone), parent.Sum(o, parent.RoleNone), pendingPlan)
	annotate(v1alpha1.AnnotationKeyApprovePrefix+id, "once")(o)
	first := externalGating(o, waiting()).Decide()
	value := first.Edits[v1alpha1.AnnotationKeyClaims] // its own, in the same write
	if value == nil || first.Claim != nil || first.Gate.Claim != approval.ParseClaims(*value)[0].ID {
		t.Fatalf("no claim: %+v", first)
	}
	annotate(v1alpha1.AnnotationKeyClaims, *value)(o)
	second := externalGating(o, waiting()).Decide()
	if second.Action != ActionOpen || second.Claim != nil || second.Gate.Claim != first.Gate.Claim {
		t.Fatalf("after a crash: %+v", second)
	}
	used := v1alpha1.Gate{State: v1alpha1.GateClosed, Generation: 8, Claim: first.Gate.Claim}
	gateOf(used)(o)
	if d := externalGating(o, waiting()).Decide(); d.Action != ActionNone {
		t.Errorf("used twice: %+v", d)
	}
	s := parent.Sum(o, parent.RoleNone)
	if c := ClaimToFinish(s, s); c == nil || c.ID != first.Gate.Claim {
		t.Errorf("not finished: %+v", c)
	}
}

func gateOf(g v1alpha1.Gate) mod {
	return gateValue(`{"state":"` + string(g.State) + `","generation":8,"at":"2026-01-02T12:10:00Z","claim":"` + g.Claim + `"}`)
}
