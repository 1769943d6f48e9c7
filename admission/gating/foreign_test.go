package gating

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var pendingPlan = []change.Change{{Path: "status.plan.pending", Verb: change.Mutate, Old: "main/1", New: "plan-main-2"}}

// waiting is a plan that waits behind a closed gate.
func waiting() external.View {
	return external.View{State: external.StateClosed, Masked: true, Known: true, Current: true, Difference: pendingPlan,
		Verbs: []v1alpha1.Verb{verb.Apply}}
}

func externalGating(o *unstructured.Unstructured, v external.View) Foreign {
	s := parent.Sum(o, parent.RoleNone)
	return Foreign{View: v, System: "tofu-controller", Managed: Managed{MR: s, Mode: v1alpha1.ModeEnforce, Deadline: time.Hour, User: "gate", Now: fx.Noon,
		Holders: []identity.Holder{{State: s}}}}
}

const (
	closed6   = `{"state":"closed","generation":6,"at":"2026-01-02T11:30:00Z"}`
	closed4   = `{"state":"closed","generation":4,"at":"2026-01-02T11:30:00Z"}`
	openApply = `{"state":"open","verbs":["apply"],"generation":6,"at":"2026-01-02T11:30:00Z"}`
	openClaim = `{"state":"open","verbs":["apply"],"generation":6,"at":"2026-01-02T11:30:00Z","claim":"c1"}`
)

// gated are the annotations of an object with a gate, and more of them as keys and values.
func gated(gate string, kv ...string) map[string]string {
	out := map[string]string{v1alpha1.AnnotationKeyGate: gate}
	for ; len(kv) > 1; kv = kv[2:] {
		out[kv[0]] = kv[1]
	}
	return out
}

// pendingID is the id of pendingPlan.
func pendingID() string {
	terraform := parent.Sum(fx.Terraform(nil), parent.RoleNone)
	return identity.DriftDigest(terraform, terraform, pendingPlan).ID()
}

// foreignCase is an object of another external system, and what happens to its gate.
type foreignCase struct {
	reason      string
	annotations map[string]string
	view        func(*external.View)
	change      func(*Foreign)
	want        Action
	// is the gate's reason, or a part of why nothing is done.
	is string
}

// testForeign decides about a plan that waits, unless the case changes that.
func testForeign(t *testing.T, cases map[string]foreignCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := waiting()
			if tc.view != nil {
				tc.view(&v)
			}
			g := externalGating(fx.Terraform(tc.annotations), v)
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
			if d.Action == ActionOpen && (d.Gate.Generation != 8 || !d.Gate.At.Time.Equal(approval.Stamp(fx.Noon).Time) || !reflect.DeepEqual(d.Gate.Verbs, v.Verbs)) {
				t.Errorf("%s: gate %+v", tc.reason, d.Gate)
			}
		})
	}
}

// TestExternalGating: when the gate is installed and removed, and when an opening ends.
func TestExternalGating(t *testing.T) {
	testForeign(t, map[string]foreignCase{
		"Deleting": {reason: "nothing touches what is being deleted", annotations: gated(openApply),
			change: func(g *Foreign) { at := fx.Noon; g.MR.DeletedAt = &at }, want: ActionNone, is: "being deleted"},
		"Install": {reason: "an idle object is closed",
			view: func(v *external.View) { v.Masked, v.Idle, v.State = false, true, external.StateOpen }, want: ActionInstall,
			is: v1alpha1.GateReasonInstalled},
		"InstallBusy": {reason: "not in the middle of something",
			view: func(v *external.View) { v.Masked, v.State = false, external.StateOpen }, want: ActionNone, is: "not idle"},
		"Free": {reason: "its author lets nothing through",
			view: func(v *external.View) { v.Masked, v.State, v.Why = false, external.StateFree, "by hand" }, want: ActionNone, is: "by hand"},
		"FreeMasked": {reason: "he changed his mind", annotations: gated(closed6),
			view: func(v *external.View) { v.State = external.StateFree }, want: ActionRestore},
		"Log": {reason: "log mode restores", annotations: gated(closed6),
			change: func(g *Foreign) { g.Mode = v1alpha1.ModeLog }, want: ActionRestore},
		"LogUnfinished": {reason: "not before it is known that what it was open by is finished",
			annotations: gated(`{"state":"closed","generation":6,"at":"2026-01-02T11:30:00Z","claim":"c1"}`),
			change:      func(g *Foreign) { g.Mode = v1alpha1.ModeLog }, want: ActionNone, is: "read live"},
		"LogUnmasked": {reason: "where there is something to restore", view: func(v *external.View) { v.Masked = false },
			change: func(g *Foreign) { g.Mode = v1alpha1.ModeLog }, want: ActionNone, is: "mode is log"},
		"LogOpen": {reason: "an opening by approval is closed first, so that the approval is finished",
			annotations: gated(openClaim), change: func(g *Foreign) { g.Mode = v1alpha1.ModeLog }, want: ActionClose,
			is: v1alpha1.GateReasonRestored},
		"Remask": {reason: "its author's value was written again", annotations: gated(closed6),
			view: func(v *external.View) { v.State = external.StateOpen }, want: ActionMask},
		"Going": {reason: "it is not done", annotations: gated(openApply),
			view: func(v *external.View) { v.State, v.Unconfirmed = external.StateOpen, "not applied" }, want: ActionNone, is: "not applied"},
		"Done": {reason: "it is", annotations: gated(openApply),
			view: func(v *external.View) { v.State = external.StateOpen }, want: ActionClose, is: v1alpha1.GateReasonConfirmed},
		"Expired": {reason: "it never was", annotations: gated(openApply),
			view:   func(v *external.View) { v.State, v.Unconfirmed = external.StateOpen, "not applied" },
			change: func(g *Foreign) { g.Now = fx.Noon.Add(time.Hour) }, want: ActionClose, is: v1alpha1.GateReasonExpired},
		"Superseded": {reason: "it will not be", annotations: gated(openApply),
			view: func(v *external.View) { v.State, v.Over = external.StateOpen, external.OverSuperseded }, want: ActionClose,
			is: external.OverSuperseded},
	})
}

// TestExternalGatingChanged: a change of the object opens the gate for what follows from it; what else waits is reported.
func TestExternalGatingChanged(t *testing.T) {
	testForeign(t, map[string]foreignCase{
		"Nothing": {reason: "nothing would be done", annotations: gated(closed6),
			view: func(v *external.View) { v.Difference = nil }, want: ActionNone, is: "it is closed"},
		"ChangedNothing": {reason: "hans's change takes nothing outside: what comes later is not its", annotations: gated(closed4),
			view: func(v *external.View) { v.Difference, v.Verbs, v.Idle = nil, nil, true }, want: ActionClose, is: v1alpha1.GateReasonNothing},
		"ChangedUnseen": {reason: "it is not known yet whether it does", annotations: gated(closed4),
			view: func(v *external.View) { v.Difference, v.Verbs, v.Idle, v.Current = nil, nil, true, false }, want: ActionNone, is: "it is closed"},
		"ChangedRight": {reason: "right after the gate moved",
			annotations: gated(`{"state":"closed","generation":5,"at":"2026-01-02T11:30:00Z"}`), want: ActionOpen, is: "Changed"},
		"Waits": {reason: "unrequested: it is reported", annotations: gated(closed6), want: ActionNone,
			is: "no approval covers"},
		"Busy": {reason: "one after the other", annotations: gated(closed4),
			view: func(v *external.View) { v.Busy = "an operation goes on" }, want: ActionNone, is: "an operation goes on"},
		"Stale": {reason: "what is known is about an older version", annotations: gated(closed4),
			view: func(v *external.View) { v.Current = false }, want: ActionNone, is: "not known yet"},
		"Changed": {reason: "hans changed it since the gate moved", annotations: gated(closed4), want: ActionOpen,
			is: "Changed"},
		"ChangedSuspended": {reason: "but nothing opens it while the policy is suspended", annotations: gated(closed4),
			change: func(g *Foreign) { g.Suspended = true }, want: ActionNone, is: "no approval covers"},
		"ChangedForeign": {reason: "but an earlier commit waits: it is not applied with it", annotations: gated(closed4),
			view: func(v *external.View) { v.Foreign = true }, want: ActionNone, is: "no approval covers"},
		"ChangedDestroy": {reason: "and no change destroys", annotations: gated(closed4),
			view: func(v *external.View) { v.Verbs = []v1alpha1.Verb{verb.Destroy} }, want: ActionNone, is: "no approval covers"},
		"ChangedPrune": {reason: "nor prunes", annotations: gated(closed4),
			view: func(v *external.View) { v.Verbs = []v1alpha1.Verb{verb.Sync, verb.Remove} }, want: ActionNone,
			is: "no approval covers"},
	})
}

// TestExternalGatingFrozen: what is frozen or rejected stays closed.
func TestExternalGatingFrozen(t *testing.T) {
	id := pendingID()
	testForeign(t, map[string]foreignCase{
		"Frozen": {reason: "a frozen object stays closed",
			annotations: gated(closed6, v1alpha1.AnnotationKeyApprovePrefix+id, "once", v1alpha1.AnnotationKeyFreeze, "true"), want: ActionNone,
			is: "was frozen"},
		"ChangedFrozen": {reason: "and an accepted change waits, without a report", annotations: gated(closed4, v1alpha1.AnnotationKeyFreeze, "true"),
			want: ActionNone, is: "frozen"},
		"OpenFrozen": {reason: "what is open is closed", annotations: gated(openApply, v1alpha1.AnnotationKeyFreeze, "true"),
			view: func(v *external.View) { v.Unconfirmed = "a plan waits" }, want: ActionClose, is: v1alpha1.GateReasonFrozen},
		"ConfirmedFrozen": {reason: "unless it is done", annotations: gated(openApply, v1alpha1.AnnotationKeyFreeze, "true"),
			want: ActionClose, is: v1alpha1.GateReasonConfirmed},
		"Rejected": {reason: "or rejected",
			annotations: gated(closed6, v1alpha1.AnnotationKeyApprovePrefix+id, "once", v1alpha1.AnnotationKeyRejections,
				`[{"kind":"*","name":"*","reason":"audit"}]`),
			want: ActionNone, is: "audit"},
	})
}

// TestExternalGatingApproved: which approvals open the gate.
func TestExternalGatingApproved(t *testing.T) {
	id := pendingID()
	testForeign(t, map[string]foreignCase{
		"ById": {reason: "approved by its id",
			annotations: gated(closed6, v1alpha1.AnnotationKeyApprovePrefix+id, "once"), want: ActionOpen, is: v1alpha1.GateReasonApproved},
		"ByOtherId": {reason: "another difference was",
			annotations: gated(closed6, v1alpha1.AnnotationKeyApprovePrefix+"0123456789abcdef", "once"), want: ActionNone, is: "no approval covers"},
		"ByVerb": {reason: "by the system's verb",
			annotations: gated(closed6, v1alpha1.AnnotationKeyApprovals,
				`[{"kind":"Terraform","name":"net","relation":"External","verbs":["apply"],"mode":"always"}]`),
			want: ActionOpen, is: v1alpha1.GateReasonApproved},
		"ByCrossplane": {reason: "or Crossplane's",
			annotations: gated(closed6, v1alpha1.AnnotationKeyApprovals,
				`[{"kind":"Terraform","name":"net","relation":"External","verbs":["Create","Update"],"mode":"always"}]`),
			want: ActionOpen, is: v1alpha1.GateReasonApproved},
		"ByHalf": {reason: "Update alone creates nothing",
			annotations: gated(closed6, v1alpha1.AnnotationKeyApprovals,
				`[{"kind":"Terraform","name":"net","relation":"External","verbs":["Update"],"mode":"always"}]`),
			want: ActionNone, is: "no approval covers"},
		"ByBoth": {reason: "or one of each",
			annotations: gated(closed6, v1alpha1.AnnotationKeyApprovals,
				`[{"kind":"Terraform","name":"net","relation":"External","verbs":["apply","Delete"],"mode":"always"}]`),
			view: func(v *external.View) { v.Verbs = []v1alpha1.Verb{verb.Apply, verb.Destroy} }, want: ActionOpen, is: v1alpha1.GateReasonApproved},
		"ByDefault": {reason: "without verbs, what it does with every change",
			annotations: gated(closed6, v1alpha1.AnnotationKeyApprovals, `[{"kind":"Terraform","name":"net","relation":"External","mode":"always"}]`),
			want:        ActionOpen, is: v1alpha1.GateReasonApproved},
		"ByDefaultDestroy": {reason: "which destroys nothing",
			annotations: gated(closed6, v1alpha1.AnnotationKeyApprovals, `[{"kind":"Terraform","name":"net","relation":"External","mode":"always"}]`),
			view:        func(v *external.View) { v.Verbs = []v1alpha1.Verb{verb.Destroy} }, want: ActionNone, is: "no approval covers"},
		"ByOtherSystem": {reason: "not by the verb of another system",
			annotations: gated(closed6, v1alpha1.AnnotationKeyApprovals,
				`[{"kind":"Terraform","name":"net","relation":"External","verbs":["sync"],"mode":"always"}]`),
			want: ActionNone, is: "no approval covers"},
		"ByApplyDestroy": {reason: "apply is no destroy",
			annotations: gated(closed6, v1alpha1.AnnotationKeyApprovals,
				`[{"kind":"Terraform","name":"net","relation":"External","verbs":["apply"],"mode":"always"}]`),
			view: func(v *external.View) { v.Verbs = []v1alpha1.Verb{verb.Destroy} }, want: ActionNone, is: "no approval covers"},
		"ByChild": {reason: "an approval about Kubernetes objects is none",
			annotations: gated(closed6, v1alpha1.AnnotationKeyApprovals, `[{"kind":"Terraform","name":"net","mode":"always"}]`), want: ActionNone,
			is: "no approval covers"},
	})
}

// TestExternalGatingAllowed: which allowances do.
func TestExternalGatingAllowed(t *testing.T) {
	allowance := func(verbs string, generation string) string {
		return `[{"relation":"External","verbs":[` + verbs + `],"generation":` + generation + `}]`
	}
	testForeign(t, map[string]foreignCase{
		"Allowed": {reason: "an allowance that came since",
			annotations: gated(closed6, v1alpha1.AnnotationKeyAllowances, allowance(`"apply"`, "7")), want: ActionOpen, is: "Allowed"},
		"AllowedOtherSystem": {reason: "the verb of another system permits nothing",
			annotations: gated(closed6, v1alpha1.AnnotationKeyAllowances, allowance(`"sync"`, "7")), want: ActionNone, is: "no approval covers"},
		"AllowedConsumed": {reason: "one of before the gate moved is used",
			annotations: gated(closed6, v1alpha1.AnnotationKeyAllowances, allowance(`"apply"`, "5")), want: ActionNone, is: "no approval covers"},
		"AllowedTimeless": {reason: "one without a generation would open for ever",
			annotations: gated(closed6, v1alpha1.AnnotationKeyAllowances, allowance(`"apply"`, "0")), want: ActionNone, is: "no approval covers"},
		"AllowedHalf": {reason: "it must hold everything",
			annotations: gated(closed6, v1alpha1.AnnotationKeyAllowances, allowance(`"sync"`, "7")),
			view:        func(v *external.View) { v.Verbs = []v1alpha1.Verb{verb.Sync, verb.Remove} }, want: ActionNone,
			is: "no approval covers"},
		"AllowedGarbage": {reason: "what is not understood permits nothing",
			annotations: gated(closed6, v1alpha1.AnnotationKeyAllowances, `{`), want: ActionNone, is: "no approval covers"},
		"AllowedElsewhere": {reason: "for another system",
			annotations: gated(closed6, v1alpha1.AnnotationKeyAllowances,
				`[{"relation":"External","verbs":["*"],"generation":7,"externalTarget":{"system":"Argo CD"}}]`),
			want: ActionNone, is: "no approval covers"},
	})
}

// TestExternalGatingVotes covers KR-14-12 and KR-14-63: the Drift of what Flux or Argo CD would do has who voted and what is missing, and the
// opening who approved.
func TestExternalGatingVotes(t *testing.T) {
	rule, errs := allowance.CompileRule(&v1alpha1.ApprovalRule{ObjectMeta: metav1.ObjectMeta{Name: "two"}, Spec: v1alpha1.ApprovalRuleSpec{
		Match:   v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationExternal}},
		Require: []v1alpha1.RequiredVotes{{Count: 2}}}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	o := fx.Terraform(map[string]string{v1alpha1.AnnotationKeyGate: `{"state":"closed","generation":6,"at":"2026-01-02T11:30:00Z"}`})
	decideWith := func(votes ...v1alpha1.Vote) Decision {
		id := identity.DriftDigest(parent.Sum(o, parent.RoleNone), parent.Sum(o, parent.RoleNone), pendingPlan).ID()
		fx.Annotate(v1alpha1.AnnotationKeyClaims, approval.Claims{{Content: "c", State: v1alpha1.ClaimOpen, Digest: id, Mode: v1alpha1.ApprovalOnce, Votes: true,
			Generation: 99, By: votes}}.String())(o)
		g := externalGating(o, waiting())
		g.Policies = allowance.NewSet(nil, nil, nil).WithRules([]*allowance.Rule{rule})
		return g.Decide()
	}
	anna, bob, bot := v1alpha1.Vote{User: "anna"}, v1alpha1.Vote{User: "bob"}, v1alpha1.Vote{User: "bot", Machine: true}
	d := decideWith(anna, bot)
	if d.Drift == nil || len(d.Votes) != 2 || !strings.HasPrefix(d.Lacks, "1 of 2 approvals (anna); needs 1 more") {
		t.Errorf("one vote of two: %+v", d)
	}
	d = decideWith(anna, bot, bob)
	if d.Action != ActionOpen || approval.ByText(d.Approval) != ", by anna and bob" {
		t.Errorf("two votes of two: %+v, by %+v", d, d.Approval)
	}
}

// A once approval is claimed before the gate opens, the same claim opens after a
// crash, and a closed gate that shows it finishes it.
func TestExternalGatingClaims(t *testing.T) {
	closed := `{"state":"closed","generation":6,"at":"2026-01-02T11:30:00Z"}`
	o := fx.Terraform(map[string]string{v1alpha1.AnnotationKeyGate: closed})
	id := identity.DriftDigest(parent.Sum(o, parent.RoleNone), parent.Sum(o, parent.RoleNone), pendingPlan).ID()
	fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+id, "once")(o)
	first := externalGating(o, waiting()).Decide()
	value := first.Edits[v1alpha1.AnnotationKeyClaims] // its own, in the same write
	if value == nil || first.Claim != nil || first.Gate.Claim != approval.ParseClaims(*value)[0].ID {
		t.Fatalf("no claim: %+v", first)
	}
	fx.Annotate(v1alpha1.AnnotationKeyClaims, *value)(o)
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

func gateOf(g v1alpha1.Gate) fx.Mod {
	return fx.GateValue(`{"state":"` + string(g.State) + `","generation":8,"at":"2026-01-02T12:10:00Z","claim":"` + g.Claim + `"}`)
}
