package admission

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// masked is what a write leaves of the MR's mask.
type masked struct {
	// Policies stored; Author remembered, "" for none.
	Policies []string
	Author   string
	// State of the stored gate, with its verbs, generation and paths.
	State      v1alpha1.GateState
	Verbs      []v1alpha1.Verb
	Generation int64
	Paths      []string
	Reason     string
}

func maskedOf(o *unstructured.Unstructured) masked {
	g := mask.ParseGate(o.GetAnnotations())
	return masked{parent.PoliciesOf(o), o.GetAnnotations()[v1alpha1.AnnotationKeyManagementPolicies], g.State, g.Verbs, g.Generation, g.Paths, g.Reason}
}

// verbs of a gate.
func verbs(v ...v1alpha1.Verb) []v1alpha1.Verb { return v }

// sizePath is what fx.Resize changes.
const sizePath = "spec.forProvider.size"

var (
	// closedMask is that of fx.Instance.
	closedMask = masked{[]string{fx.Observe}, `["*"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}

	openForDelete = []fx.Mod{fx.Policies(fx.Observe, fx.Delete),
		fx.GateValue(`{"state":"open","verbs":["Delete"],"generation":3,"at":"2026-01-02T11:00:00Z","claim":"c1","digest":"d1"}`)}
	openForRegion = []fx.Mod{fx.Policies(fx.Observe, fx.Update),
		fx.GateValue(`{"state":"open","verbs":["Update"],"generation":3,"at":"2026-01-02T11:00:00Z","paths":["spec.forProvider.region"]}`)}
)

// openMask is what a change of paths leaves of closedMask.
func openMask(p []string, paths ...string) masked {
	return masked{p, `["*"]`, v1alpha1.GateOpen, verbs(fx.Update), 4, paths, "Changed"}
}

// pausedChange is what a change leaves that is accepted while the managed resource is paused.
var pausedChange = masked{[]string{fx.Observe}, `["*"]`, v1alpha1.GateClosed, verbs(fx.Update), 4, []string{sizePath}, v1alpha1.GateReasonPaused}

// gateCase is a write, and what it leaves of the mask.
type gateCase struct {
	reason  string
	setting setting
	req     *Request
	want    masked
}

// testGate checks what writes leave of the mask: never more than the author gave. A write without a change leaves the trace as it was.
func testGate(t *testing.T, cases map[string]gateCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, tc.setting.world(), tc.setting.opts, tc.req)
			if !d.Allowed {
				t.Fatalf("%s: refused: %s", tc.reason, d.Message)
			}
			result := apply(tc.req.Object, d)
			if diff := cmp.Diff(tc.want, maskedOf(result)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if d.Class == outcome.ClassNone && tc.req.OldObject != nil {
				if got, want := result.GetAnnotations()[v1alpha1.AnnotationKeyTrace], tc.req.OldObject.GetAnnotations()[v1alpha1.AnnotationKeyTrace]; got != want {
					t.Errorf("%s: no change, and another trace: %s", tc.reason, got)
				}
			}
			addsNothing(t, tc.reason, d, result)
		})
	}
}

// TestGate covers what a change leaves of the mask (KR-08-01, KR-08-04, KR-08-07).
func TestGate(t *testing.T) {
	accepted := expectedUnder(enforced())
	openForCreate := []fx.Mod{fx.Policies(fx.Observe, fx.Create, fx.Update, fx.LateInitialize),
		fx.GateValue(`{"state":"open","verbs":["Create","Update","LateInitialize"],"generation":1,"at":"2026-01-02T11:00:00Z","reason":"Created"}`)}
	differs := fx.Set("m", "status", "atProvider", "region")
	carry := enforced()
	carry.CarryPendingDrift = true
	testGate(t, map[string]gateCase{
		"Change": {reason: "an accepted change opens Update in the same write, at the generation it brings about",
			setting: accepted, req: byCrossplane(Update, fx.Instance(), fx.Resize("l")), want: openMask([]string{fx.Observe, fx.Update}, sizePath)},
		"ChangeNewOrigin": {reason: "a person's change is accepted", setting: setting{opts: enforced()},
			req: by(byCrossplane(Update, fx.Instance(), fx.Resize("l")), fx.Alice, "kubectl"), want: openMask([]string{fx.Observe, fx.Update}, sizePath)},
		"ChangeApproved": {reason: "an approved drift is accepted",
			setting: setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, approveAll)}, opts: enforced()},
			req:     byCrossplane(Update, fx.Instance(), fx.Resize("l")), want: openMask([]string{fx.Observe, fx.Update}, sizePath)},
		"ChangeOnAuthors": {reason: "Crossplane sets the author's value along", setting: accepted,
			req: byCrossplane(Update, fx.Instance(), fx.Resize("l"), fx.Policies("*")), want: openMask([]string{fx.Observe, fx.Update}, sizePath)},
		"ChangeNoUpdate": {reason: "the author gave no Update", setting: accepted,
			req:  byCrossplane(Update, fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, `["Observe","Create"]`)), fx.Resize("l")),
			want: masked{[]string{fx.Observe}, `["Observe","Create"]`, v1alpha1.GateOpen, verbs(fx.Update), 4, []string{sizePath}, "Changed"}},
		"SelfWrite": {reason: "late initialisation opens nothing", setting: setting{opts: enforced()},
			req: by(byCrossplane(Update, fx.Instance(), fx.Resize("l")), fx.Provider, "provider"), want: closedMask},
		"WhileCreating": {reason: "Create stays open, and all paths", setting: accepted,
			req: byCrossplane(Update, fx.With(fx.Instance(), openForCreate...), fx.Resize("l")),
			want: masked{[]string{fx.Observe, fx.Create, fx.Update, fx.LateInitialize}, `["*"]`, v1alpha1.GateOpen,
				verbs(fx.Create, fx.Update, fx.LateInitialize), 4, nil, "Changed"}},
		"WhileOpen": {reason: "paths add up", setting: accepted,
			req:  byCrossplane(Update, fx.With(fx.Instance(), openForRegion...), fx.Resize("l")),
			want: openMask([]string{fx.Observe, fx.Update}, "spec.forProvider.region", sizePath)},
		"WhileOpenDelete": {reason: "an approved deletion is not lost to a change", setting: accepted,
			req:  byCrossplane(Update, fx.With(fx.Instance(), openForDelete...), fx.Resize("l")),
			want: masked{[]string{fx.Observe, fx.Delete}, `["*"]`, v1alpha1.GateOpen, verbs(fx.Delete, fx.Update), 4, []string{sizePath}, "Changed"}},
		"Pending": {reason: "a difference outside of the accepted change keeps it closed", setting: accepted,
			req:  byCrossplane(Update, fx.With(fx.Instance(), differs), fx.Resize("l")),
			want: masked{[]string{fx.Observe}, `["*"]`, v1alpha1.GateClosed, verbs(v1alpha1.VerbUpdate), 4, []string{"spec.forProvider.size"}, "ExternalDriftPending"}},
		"PendingCarry": {reason: "onPendingDrift: carry", setting: expectedUnder(carry),
			req: byCrossplane(Update, fx.With(fx.Instance(), differs), fx.Resize("l")), want: openMask([]string{fx.Observe, fx.Update}, sizePath)},
		"PendingSamePath": {reason: "a difference that the accepted change is about", setting: accepted,
			req:  byCrossplane(Update, fx.With(fx.Instance(), differs), fx.Set("us", "spec", "forProvider", "region")),
			want: openMask([]string{fx.Observe, fx.Update}, "spec.forProvider.region")},
		"UnmaskedChange": {reason: "unless an accepted change opens it", setting: accepted,
			req: byCrossplane(Update, fx.Unmasked(), fx.Resize("l")), want: openMask([]string{fx.Observe, fx.Update}, sizePath)},
	})
}

// TestGateOfCreation covers KR-08-06: what a creation leaves of the mask.
func TestGateOfCreation(t *testing.T) {
	accepted := expectedUnder(enforced())
	testGate(t, map[string]gateCase{
		"Create": {reason: "opens Create, Update and LateInitialize", setting: accepted, req: byCrossplane(Create, fx.Unmasked()),
			want: masked{[]string{fx.Observe, fx.Create, fx.Update, fx.LateInitialize}, `["*"]`, v1alpha1.GateOpen,
				verbs(fx.Create, fx.Update, fx.LateInitialize), 1, nil, "Created"}},
		"CreateAuthor": {reason: "never a verb the author did not give", setting: accepted,
			req: byCrossplane(Create, fx.With(fx.Unmasked(), fx.Policies(fx.Observe, fx.Create, fx.Update, fx.Delete))),
			want: masked{[]string{fx.Observe, fx.Create, fx.Update}, `["Observe","Create","Update","Delete"]`, v1alpha1.GateOpen,
				verbs(fx.Create, fx.Update, fx.LateInitialize), 1, nil, "Created"}},
		"CreateByPerson": {reason: "an MR without a parent", setting: accepted,
			req: by(byCrossplane(Create, fx.With(fx.Unmasked(), plainOwner)), fx.Alice, "kubectl"),
			want: masked{[]string{fx.Observe, fx.Create, fx.Update, fx.LateInitialize}, `["*"]`, v1alpha1.GateOpen,
				verbs(fx.Create, fx.Update, fx.LateInitialize), 1, nil, "Created"}},
		"CreateRestored": {reason: "a restored backup brings the author's value and the mask; what changed outside since is not overwritten (KR-13-58)",
			setting: accepted, req: by(byCrossplane(Create, fx.Instance()), fx.Alice, "velero"),
			want: masked{[]string{fx.Observe}, `["*"]`, v1alpha1.GateClosed, nil, 1, nil, "Installed"}},
		"CreateRestoredCreation": {reason: "a creation that was under way goes on", setting: accepted,
			req: by(byCrossplane(Create, fx.With(fx.Instance(),
				fx.GateValue(`{"state":"open","verbs":["Create","Update","LateInitialize"],"generation":1}`))), fx.Alice, "velero"),
			want: masked{[]string{fx.Observe, fx.Create, fx.Update, fx.LateInitialize}, `["*"]`, v1alpha1.GateOpen,
				verbs(fx.Create, fx.Update, fx.LateInitialize), 1, nil, "Created"}},
	})
}

// TestGateUnmaskedByChoice covers KR-08-03: what its author has limited or paused is not masked until that ends (KR-13-12).
func TestGateUnmaskedByChoice(t *testing.T) {
	accepted := expectedUnder(enforced())
	paused := fx.Annotate("crossplane.io/paused", "true")
	testGate(t, map[string]gateCase{
		"CreateObserve": {reason: "Observe alone is left alone", setting: accepted,
			req: byCrossplane(Create, fx.With(fx.Unmasked(), fx.Policies(fx.Observe))), want: masked{Policies: []string{fx.Observe}}},
		"CreatePaused": {reason: "so is []", setting: accepted, req: byCrossplane(Create, fx.With(fx.Unmasked(), fx.Policies())),
			want: masked{Policies: []string{}}},
		"AuthorsObserve": {reason: "the author writes an unmaskable value different from the mask", setting: accepted,
			req:  byCrossplane(Update, fx.With(fx.Instance(), fx.Policies(fx.Observe, fx.Update)), fx.Policies(fx.Observe)),
			want: masked{Policies: []string{fx.Observe}}},
		"AuthorsPause": {reason: "[] is left alone", setting: accepted, req: byCrossplane(Update, fx.Instance(), fx.Policies()),
			want: masked{Policies: []string{}}},
		"Resume": {reason: "after [] the gate closes in the same write (KR-13-12)", setting: accepted,
			req:  byCrossplane(Update, fx.With(fx.Unmasked(), fx.Ready, fx.Policies()), fx.Policies("*")),
			want: masked{[]string{fx.Observe}, `["*"]`, v1alpha1.GateClosed, nil, 4, nil, "Installed"}},
		"ResumeObserved": {reason: "and after Observe alone", setting: accepted,
			req:  by(byCrossplane(Update, fx.With(fx.Unmasked(), fx.Ready, fx.Policies(fx.Observe)), fx.Policies("*")), fx.Alice, "kubectl"),
			want: masked{[]string{fx.Observe}, `["*"]`, v1alpha1.GateClosed, nil, 4, nil, "Installed"}},
		"ResumeIllegal": {reason: "and after a set without Observe, which no provider reconciles", setting: accepted,
			req:  byCrossplane(Update, fx.With(fx.Unmasked(), fx.Ready, fx.Policies(fx.Update)), fx.Policies("*")),
			want: masked{[]string{fx.Observe}, `["*"]`, v1alpha1.GateClosed, nil, 4, nil, "Installed"}},
		"ResumeStatusless": {reason: "who may write the status makes no object one that is still to be created", setting: accepted,
			req: byCrossplane(Update, fx.With(fx.Unmasked(), fx.Annotate("crossplane.io/external-create-succeeded", "2026-01-01T00:00:00Z"), fx.Policies()),
				fx.Policies("*"), fx.Unannotate("crossplane.io/external-create-succeeded")),
			want: masked{[]string{fx.Observe}, `["*"]`, v1alpha1.GateClosed, nil, 4, nil, "Installed"}},
		"ResumeWithChange": {reason: "an accepted change in the same write waits for the provider's report (KR-08-72)", setting: accepted,
			req: byCrossplane(Update, fx.With(fx.Unmasked(), fx.Ready, fx.Policies()), fx.Policies("*"), fx.Resize("l")),
			want: masked{[]string{fx.Observe}, `["*"]`, v1alpha1.GateClosed, verbs(fx.Update), 4, []string{sizePath, "spec.managementPolicies"},
				v1alpha1.GateReasonPaused}},
		"ResumeObservedWithChange": {reason: "or opens it for that change, if the provider observed all the time", setting: accepted,
			req:  byCrossplane(Update, fx.With(fx.Unmasked(), fx.Ready, fx.Policies(fx.Observe)), fx.Policies("*"), fx.Resize("l")),
			want: openMask([]string{fx.Observe, fx.Update}, sizePath, "spec.managementPolicies[0]")},
		"ResumeCreation": {reason: "nothing is outside yet of one that was never Ready: it is masked once it is", setting: accepted,
			req: byCrossplane(Update, fx.With(fx.Unmasked(), fx.Policies()), fx.Policies("*")), want: masked{Policies: []string{"*"}}},
		"CreatePausedByAnnotation": {reason: "what is created while it is paused stays as its author wrote it", setting: accepted,
			req: byCrossplane(Create, fx.With(fx.Unmasked(), paused)), want: masked{Policies: []string{"*"}}},
		"ChangePaused": {reason: "also when it changes", setting: accepted,
			req: byCrossplane(Update, fx.With(fx.Unmasked(), paused), fx.Resize("l")), want: masked{Policies: []string{"*"}}},
		"ChangeUnpaused": {reason: "or goes on with a change", setting: accepted,
			req:  byCrossplane(Update, fx.With(fx.Unmasked(), paused), fx.Resize("l"), fx.Unannotate("crossplane.io/paused")),
			want: masked{Policies: []string{"*"}}},
		"ChangePausedMasked": {reason: "its provider reports nothing until it goes on", setting: accepted,
			req: byCrossplane(Update, fx.With(fx.Instance(), paused), fx.Resize("l")), want: pausedChange},
		"ChangeGoesOnMasked": {reason: "nor has it reported since", setting: accepted,
			req: byCrossplane(Update, fx.With(fx.Instance(), fx.Condition("Synced", "False", "ReconcilePaused", 3)), fx.Resize("l")), want: pausedChange},
		"ChangeResumedMasked": {reason: "nor has it in this write", setting: accepted,
			req: byCrossplane(Update, fx.With(fx.Instance(), paused), fx.Resize("l"), fx.Unannotate("crossplane.io/paused")), want: pausedChange},
	})
}

// TestGateAuthorsValue covers KR-08-16: the author's value is what its author wrote last, and no other write changes it or the gate.
func TestGateAuthorsValue(t *testing.T) {
	accepted := expectedUnder(enforced())
	closeLate := enforced()
	closeLate.CloseTo = []v1alpha1.Verb{v1alpha1.VerbLateInitialize}
	testGate(t, map[string]gateCase{
		"ReapplyMask": {reason: "closed stays closed", setting: setting{opts: enforced()}, req: byCrossplane(Update, fx.Instance()),
			want: closedMask},
		"ReapplyAuthors": {reason: "the author's value again: no diff, the mask stays", setting: setting{opts: enforced()},
			req: byCrossplane(Update, fx.Instance(), fx.Policies("*")), want: closedMask},
		"ReapplyOpen": {reason: "open stays open", setting: setting{opts: enforced()},
			req:  byCrossplane(Update, fx.With(fx.Instance(), openForRegion...), fx.Policies("*")),
			want: masked{[]string{fx.Observe, fx.Update}, `["*"]`, v1alpha1.GateOpen, verbs(fx.Update), 3, []string{"spec.forProvider.region"}, ""}},
		"AuthorsChange": {reason: "the author takes Delete away: remembered, and no opening", setting: accepted,
			req:  byCrossplane(Update, fx.Instance(), fx.Policies(fx.Observe, fx.Create, fx.Update)),
			want: masked{[]string{fx.Observe}, `["Observe","Create","Update"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}},
		"CloseLate": {reason: "closed to Observe and LateInitialize by choice", setting: setting{opts: closeLate},
			req:  byCrossplane(Update, fx.With(fx.Instance(), fx.Policies(fx.Observe, fx.LateInitialize)), fx.Policies("*")),
			want: masked{[]string{fx.Observe, fx.LateInitialize}, `["*"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}},
		"Unmasked": {reason: "masked for the first time by the gate controller, at its own pace",
			setting: setting{opts: enforced()}, req: byCrossplane(Update, fx.Unmasked()), want: masked{Policies: []string{"*"}}},
		"Forged": {reason: "only our components write the gate or the remembered value", setting: setting{opts: enforced()},
			req: by(byCrossplane(Update, fx.Instance(), fx.GateValue(`{"state":"open","verbs":["Delete"],"at":null}`),
				fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, `["Observe"]`)), fx.Alice, "kubectl"),
			want: closedMask},
		"ForgedGate": {reason: "a Composition neither", setting: setting{opts: enforced()},
			req: byCrossplane(Update, fx.Instance(), fx.GateValue(`{"state":"open","verbs":["Delete"],"at":null}`)), want: closedMask},
		"Dropped": {reason: "or removes them", setting: setting{opts: enforced()},
			req: byCrossplane(Update, fx.Instance(), fx.Unannotate(v1alpha1.AnnotationKeyGate, v1alpha1.AnnotationKeyManagementPolicies)), want: closedMask},
	})
}

// TestGateByFunction covers KR-08-16: what the composition function masks as well is not the author's value.
func TestGateByFunction(t *testing.T) {
	accepted := expectedUnder(enforced())
	// What the composition function composes where it masks, too: the mask, its record, the author's value.
	function := func(g string, author string, p ...any) []fx.Mod {
		return []fx.Mod{fx.Policies(p...), fx.GateValue(g), fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, author)}
	}
	stale := function(`{"state":"open","verbs":["Create","Update","LateInitialize"],"generation":1,"at":"2026-01-02T10:00:00Z",`+
		`"reason":"Created"}`, `["*"]`, fx.Observe, fx.Create, fx.Update, fx.LateInitialize)
	less := func(author string) fx.Mod { return fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, author) }
	announced := fx.Annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{fx.Hop(fx.Composite(), 8, "alice"), fx.Hop(fx.Unmasked(), 4, "")}.String())
	shut := `{"state":"closed","generation":4,"at":"2026-01-02T11:30:00Z","reason":"Confirmed"}`
	testGate(t, map[string]gateCase{
		"Function": {reason: "the function's mask of a while ago is not the author's value",
			setting: setting{opts: enforced()}, req: byCrossplane(Update, fx.Instance(), stale...), want: closedMask},
		"FunctionOpens": {reason: "it brings a change and its own opening: the change opens", setting: accepted,
			req: byCrossplane(Update, fx.Instance(), append(function(`{"state":"open","verbs":["Update"],"generation":4,"at":"2026-01-02T11:30:00Z"}`,
				`["*"]`, fx.Observe, fx.Update), fx.Resize("l"))...),
			want: openMask([]string{fx.Observe, fx.Update}, sizePath)},
		"FunctionCloses": {reason: "it closes what is open: that is left to the gate controller",
			setting: setting{opts: enforced()}, req: byCrossplane(Update, fx.With(fx.Instance(), openForRegion...), function(shut, `["*"]`, fx.Observe)...),
			want: masked{[]string{fx.Observe, fx.Update}, `["*"]`, v1alpha1.GateOpen, verbs(fx.Update), 3, []string{"spec.forProvider.region"}, ""}},
		"FunctionAdopts": {reason: "it masks for the first time: at the gate controller's pace",
			setting: setting{opts: enforced()}, req: byCrossplane(Update, fx.Unmasked(), function(shut, `["*"]`, fx.Observe)...),
			want: masked{Policies: []string{"*"}}},
		"FunctionAuthors": {reason: "the author's value behind its mask is another, and it announces that", setting: accepted,
			req:  byCrossplane(Update, fx.Instance(), less(`["Observe","Create"]`), announced),
			want: masked{[]string{fx.Observe}, `["Observe","Create"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}},
		"FunctionRepeats": {reason: "it repeats what the author wrote before", setting: accepted,
			req:  byCrossplane(Update, fx.With(fx.Instance(), less(`["Observe","Create","Update"]`)), less(`["*"]`)),
			want: masked{[]string{fx.Observe}, `["Observe","Create","Update"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}},
		"FunctionNoMask": {reason: "policies that are no mask over what comes with them are their author's", setting: accepted,
			req:  byCrossplane(Update, fx.Instance(), function(shut, `["Observe","Create"]`, fx.Observe, fx.Update)...),
			want: masked{[]string{fx.Observe}, `["Observe","Update"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}},
		"FunctionPaused": {reason: "its first mask comes after the MR was paused", setting: setting{opts: enforced()},
			req: byCrossplane(Update, fx.With(fx.Unmasked(), fx.Policies()), function(shut, `["*"]`, fx.Observe)...), want: masked{Policies: []string{}}},
		"FunctionObserve": {reason: "or took all but Observe away", setting: accepted,
			req:  byCrossplane(Update, fx.With(fx.Unmasked(), fx.Policies(fx.Observe)), function(shut, `["*"]`, fx.Observe)...),
			want: masked{Policies: []string{fx.Observe}}},
		"FunctionLog": {reason: "log mode masks nothing", setting: setting{}, req: byCrossplane(Update, fx.Instance(), stale...),
			want: masked{Policies: []string{"*"}}},
		"FunctionLogAdopts": {reason: "nor does it lose the author's value to a first mask", setting: setting{},
			req: byCrossplane(Update, fx.Unmasked(), function(shut, `["*"]`, fx.Observe)...), want: masked{Policies: []string{"*"}}},
		"FunctionLogAuthor": {reason: "or keep an old one", setting: setting{xr: []fx.Mod{fx.Unsettled}},
			req: byCrossplane(Update, fx.Instance(), less(`["Observe","Create"]`), announced), want: masked{Policies: []string{fx.Observe, fx.Create}}},
		"FunctionLogPaused": {reason: "nor is a user's [\"Observe\"] undone", setting: setting{},
			req:  byCrossplane(Update, fx.With(fx.Unmasked(), fx.Policies(fx.Observe)), function(shut, `["*"]`, fx.Observe)...),
			want: masked{Policies: []string{fx.Observe}}},
		"FunctionDeleting": {reason: "nor does what is being deleted gain Delete by it", setting: setting{},
			req:  byCrossplane(Update, fx.With(fx.Unmasked(), fx.Policies(fx.Observe, fx.Create, fx.Update), fx.Deleting), function(shut, `["*"]`, fx.Observe)...),
			want: masked{Policies: []string{fx.Observe}}},
		"FunctionPerson": {reason: "a person who writes the same means it", setting: setting{opts: enforced()},
			req:  by(byCrossplane(Update, fx.Instance(), stale...), fx.Alice, "kubectl"),
			want: masked{[]string{fx.Observe}, `["Observe","Create","Update","LateInitialize"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}},
	})
}

// TestGateInLogMode covers KR-08-19: mode log masks nothing, and restores the author's value.
func TestGateInLogMode(t *testing.T) {
	testGate(t, map[string]gateCase{
		"LogCreate": {reason: "log mode masks nothing", setting: setting{xr: []fx.Mod{fx.Unsettled}},
			req: byCrossplane(Create, fx.Unmasked()), want: masked{Policies: []string{"*"}}},
		"LogRestored": {reason: "and unmasks a restored backup", setting: setting{xr: []fx.Mod{fx.Unsettled}},
			req: by(byCrossplane(Create, fx.Instance()), fx.Alice, "velero"), want: masked{Policies: []string{"*"}}},
		"LogChange": {reason: "log mode masks nothing", setting: setting{xr: []fx.Mod{fx.Unsettled}},
			req: byCrossplane(Update, fx.Unmasked(), fx.Resize("l")), want: masked{Policies: []string{"*"}}},
		"LogAuthors": {reason: "the author's value is restored: nothing is remembered that could outlive its next change",
			setting: setting{}, req: byCrossplane(Update, fx.Instance(), fx.Policies("*")), want: masked{Policies: []string{"*"}}},
	})
}

// TestGateWhileDeleting covers KR-08-14: a deletion in progress keeps Delete, and gains it by nothing.
func TestGateWhileDeleting(t *testing.T) {
	accepted := expectedUnder(enforced())
	testGate(t, map[string]gateCase{
		"Terminating": {reason: "nothing of ours takes Delete from an MR that is being deleted", setting: accepted,
			req:  byCrossplane(Update, fx.With(fx.Instance(), append(openForDelete, fx.Deleting)...), fx.Resize("l")),
			want: masked{[]string{fx.Observe, fx.Delete}, `["*"]`, v1alpha1.GateOpen, verbs(v1alpha1.VerbDelete), 3, nil, ""}},
		"TerminatingWide": {reason: "nor where the policies are wider than the gate", setting: accepted,
			req:  byCrossplane(Update, fx.With(fx.Instance(), fx.Policies("*"), fx.Deleting), fx.Resize("l")),
			want: masked{[]string{"*"}, `["*"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}},
		"TerminatingAll": {reason: "nor from one that was never masked", setting: accepted,
			req: byCrossplane(Update, fx.With(fx.Unmasked(), fx.Deleting), fx.Resize("l")), want: masked{Policies: []string{"*"}}},
		"TerminatingClosed": {reason: "a re-apply does not give Delete to one that was to be left behind", setting: accepted,
			req: byCrossplane(Update, fx.With(fx.Instance(), fx.Deleting), fx.Policies("*")), want: closedMask},
	})
}

// addsNothing asserts that a mask never adds to what the author gave.
func addsNothing(t *testing.T, reason string, d Decision, result *unstructured.Unstructured) {
	t.Helper()
	author := mask.AuthorOf(result.GetAnnotations(), parent.PoliciesOf(result))
	for _, p := range d.ManagementPolicies {
		if !mask.Gives(author, v1alpha1.Verb(p)) && !mask.Same(author, d.ManagementPolicies) {
			t.Errorf("%s: adds %s to %v", reason, p, author)
		}
	}
}

// What log mode let the author change is what enforce masks later.
func TestAuthorSurvivesLogMode(t *testing.T) {
	less := []any{fx.Observe, fx.Create}
	inLog := byCrossplane(Update, fx.Instance(), fx.Policies(less...))
	d := decide(t, setting{}.world(), Options{}, inLog)
	stored := apply(inLog.Object, d)
	back := by(byCrossplane(Update, stored, fx.Policies(less...), fx.Resize("l")), fx.Alice, "kubectl")
	d = decide(t, setting{}.world(), enforced(), back)
	if got := maskedOf(apply(back.Object, d)); got.Author != `["Observe","Create"]` {
		t.Errorf("the author's value is now %s, masked as %v", got.Author, got.Policies)
	}
}

// The gate that the decision carries is the one it stores.
func TestGateInDecision(t *testing.T) {
	req := byCrossplane(Update, fx.Instance(), fx.Resize("l"))
	d := decide(t, setting{xr: []fx.Mod{fx.Unsettled}}.world(), enforced(), req)
	raw, err := json.Marshal(d.Gate)
	if err != nil || d.Annotations[v1alpha1.AnnotationKeyGate] == nil || *d.Annotations[v1alpha1.AnnotationKeyGate] != string(raw) {
		t.Errorf("decided %s (%v), stored %s", raw, err, text(d.Annotations))
	}
	if d.Trace.Own().Generation != d.Gate.Generation {
		t.Errorf("the hop is at %d, the gate at %d", d.Trace.Own().Generation, d.Gate.Generation)
	}
}

// A change behind an open gate that requests the external value of now is marked:
// the value does not show that the provider has observed the change.
func TestUnproven(t *testing.T) {
	open := fx.With(fx.Instance(), fx.Policies(fx.Observe, fx.Update), fx.GateValue(fx.OpenUpdate),
		fx.Set("l", "spec", "forProvider", "size"), fx.Set("s", "status", "atProvider", "size"))
	cases := map[string]struct {
		reason string
		mr     *unstructured.Unstructured
		size   string
		want   bool
	}{
		"Back": {reason: "l was requested in between, which the provider may be about to make", mr: open, size: "s", want: true},
		"On":   {reason: "what is not there yet proves that it was seen", mr: open, size: "m"},
		"Closed": {reason: "nothing was opened before",
			mr: fx.With(fx.Instance(), fx.Set("l", "spec", "forProvider", "size"), fx.Set("s", "status", "atProvider", "size")), size: "s"},
		"Unreported": {reason: "nothing can be compared: another rule waits",
			mr: fx.With(open, fx.Set(map[string]any{"region": "eu"}, "status", "atProvider")), size: "s", want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := setting{xr: []fx.Mod{fx.Unsettled}}.world()
			d := decide(t, w, enforced(), byCrossplane(Update, tc.mr, fx.Resize(tc.size)))
			if d.Gate == nil || d.Gate.State != v1alpha1.GateOpen || d.Gate.Unproven != tc.want {
				t.Errorf("%s: gate %+v", tc.reason, d.Gate)
			}
		})
	}
}
