package admission

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/mask"
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
	return masked{mask.PoliciesOf(o), o.GetAnnotations()[v1alpha1.AnnotationKeyManagementPolicies], g.State, g.Verbs, g.Generation, g.Paths, g.Reason}
}

// The table of spec 8: what a write leaves of the mask
// (KR-08-01, KR-08-03, KR-08-04, KR-08-06, KR-08-07, KR-08-14, KR-08-16, KR-08-19).
func TestGate(t *testing.T) {
	verbs := func(v ...v1alpha1.Verb) []v1alpha1.Verb { return v }
	closed := masked{[]string{observe}, `["*"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}
	opened := func(p []string, paths ...string) masked {
		return masked{p, `["*"]`, v1alpha1.GateOpen, verbs(update), 4, paths, "Changed"}
	}
	size := "spec.forProvider.size"
	accepted := setting{xr: []mod{unsettled}, opts: enforced()}
	openForDelete := []mod{policies1(observe, remove), gateValue(`{"state":"open","verbs":["Delete"],"generation":3,"at":"2026-01-02T11:00:00Z","claim":"c1","digest":"d1"}`)}
	openForCreate := []mod{policies1(observe, create, update, late), gateValue(`{"state":"open","verbs":["Create","Update","LateInitialize"],"generation":1,"at":"2026-01-02T11:00:00Z","reason":"Created"}`)}
	openForRegion := []mod{policies1(observe, update), gateValue(`{"state":"open","verbs":["Update"],"generation":3,"at":"2026-01-02T11:00:00Z","paths":["spec.forProvider.region"]}`)}
	differs := set("m", "status", "atProvider", "region")
	author := func(p ...any) mod { return policies1(p...) }
	// What the composition function composes where it masks, too: the mask, its record, the author's value.
	function := func(g string, author string, p ...any) []mod {
		return []mod{policies1(p...), gateValue(g), annotate(v1alpha1.AnnotationKeyManagementPolicies, author)}
	}
	stale := function(`{"state":"open","verbs":["Create","Update","LateInitialize"],"generation":1,"at":"2026-01-02T10:00:00Z","reason":"Created"}`, `["*"]`, observe, create, update, late)
	less := func(author string) mod { return annotate(v1alpha1.AnnotationKeyManagementPolicies, author) }
	announced := annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{hopOf(composite(), 8, "alice"), hopOf(unmasked(), 4, "")}.String())
	shut := `{"state":"closed","generation":4,"at":"2026-01-02T11:30:00Z","reason":"Confirmed"}`
	carry, closeLate := enforced(), enforced()
	carry.CarryPendingDrift = true
	closeLate.CloseTo = []v1alpha1.Verb{v1alpha1.VerbLateInitialize}

	cases := map[string]struct {
		reason  string
		setting setting
		req     *Request
		want    masked
	}{
		"Create":            {"opens Create, Update and LateInitialize", accepted, request(Create, unmasked()), masked{[]string{observe, create, update, late}, `["*"]`, v1alpha1.GateOpen, verbs(create, update, late), 1, nil, "Created"}},
		"CreateAuthor":      {"never a verb the author did not give", accepted, request(Create, with(unmasked(), author(observe, create, update, remove))), masked{[]string{observe, create, update}, `["Observe","Create","Update","Delete"]`, v1alpha1.GateOpen, verbs(create, update, late), 1, nil, "Created"}},
		"CreateByPerson":    {"an MR without a parent", accepted, request(Create, with(unmasked(), plainOwner)).by(alice, "kubectl"), masked{[]string{observe, create, update, late}, `["*"]`, v1alpha1.GateOpen, verbs(create, update, late), 1, nil, "Created"}},
		"CreateRestored":    {"a restored backup brings the author's value and the mask", accepted, request(Create, instance()).by(alice, "velero"), masked{[]string{observe, create, update, late}, `["*"]`, v1alpha1.GateOpen, verbs(create, update, late), 1, nil, "Created"}},
		"CreateObserve":     {"Observe alone is left alone", accepted, request(Create, with(unmasked(), author(observe))), masked{Policies: []string{observe}}},
		"CreatePaused":      {"so is []", accepted, request(Create, with(unmasked(), author())), masked{Policies: []string{}}},
		"Change":            {"an accepted change opens Update in the same write, at the generation it brings about", accepted, request(Update, instance(), resize("l")), opened([]string{observe, update}, size)},
		"ChangeNewOrigin":   {"a person's change is accepted", setting{opts: enforced()}, request(Update, instance(), resize("l")).by(alice, "kubectl"), opened([]string{observe, update}, size)},
		"ChangeApproved":    {"an approved drift is accepted", setting{xr: []mod{annotate(v1alpha1.AnnotationKeyApprovals, approveAll)}, opts: enforced()}, request(Update, instance(), resize("l")), opened([]string{observe, update}, size)},
		"ChangeOnAuthors":   {"Crossplane sets the author's value along", accepted, request(Update, instance(), resize("l"), author("*")), opened([]string{observe, update}, size)},
		"ChangeNoUpdate":    {"the author gave no Update", accepted, request(Update, with(instance(), annotate(v1alpha1.AnnotationKeyManagementPolicies, `["Observe","Create"]`)), resize("l")), masked{[]string{observe}, `["Observe","Create"]`, v1alpha1.GateOpen, verbs(update), 4, []string{size}, "Changed"}},
		"ReapplyMask":       {"closed stays closed", setting{opts: enforced()}, request(Update, instance()), closed},
		"ReapplyAuthors":    {"the author's value again: no diff, the mask stays", setting{opts: enforced()}, request(Update, instance(), author("*")), closed},
		"ReapplyOpen":       {"open stays open", setting{opts: enforced()}, request(Update, with(instance(), openForRegion...), author("*")), masked{[]string{observe, update}, `["*"]`, v1alpha1.GateOpen, verbs(update), 3, []string{"spec.forProvider.region"}, ""}},
		"SelfWrite":         {"late initialisation opens nothing", setting{opts: enforced()}, request(Update, instance(), resize("l")).by(provider, "provider"), closed},
		"AuthorsChange":     {"the author takes Delete away: remembered, and no opening", accepted, request(Update, instance(), author(observe, create, update)), masked{[]string{observe}, `["Observe","Create","Update"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}},
		"AuthorsObserve":    {"the author writes an unmaskable value different from the mask", accepted, request(Update, with(instance(), policies1(observe, update)), author(observe)), masked{Policies: []string{observe}}},
		"AuthorsPause":      {"[] is left alone", accepted, request(Update, instance(), author()), masked{Policies: []string{}}},
		"WhileCreating":     {"Create stays open, and all paths", accepted, request(Update, with(instance(), openForCreate...), resize("l")), masked{[]string{observe, create, update, late}, `["*"]`, v1alpha1.GateOpen, verbs(create, update, late), 4, nil, "Changed"}},
		"WhileOpen":         {"paths add up", accepted, request(Update, with(instance(), openForRegion...), resize("l")), opened([]string{observe, update}, "spec.forProvider.region", size)},
		"WhileOpenDelete":   {"an approved deletion is not lost to a change", accepted, request(Update, with(instance(), openForDelete...), resize("l")), masked{[]string{observe, remove}, `["*"]`, v1alpha1.GateOpen, verbs(v1alpha1.VerbDelete, v1alpha1.VerbUpdate), 4, []string{size}, "Changed"}},
		"Pending":           {"a difference outside of the accepted change keeps it closed", accepted, request(Update, with(instance(), differs), resize("l")), masked{[]string{observe}, `["*"]`, v1alpha1.GateClosed, nil, 4, nil, "ExternalDriftPending"}},
		"PendingCarry":      {"onPendingDrift: carry", setting{xr: []mod{unsettled}, opts: carry}, request(Update, with(instance(), differs), resize("l")), opened([]string{observe, update}, size)},
		"PendingSamePath":   {"a difference that the accepted change is about", accepted, request(Update, with(instance(), differs), set("us", "spec", "forProvider", "region")), opened([]string{observe, update}, "spec.forProvider.region")},
		"CloseLate":         {"closed to Observe and LateInitialize by choice", setting{opts: closeLate}, request(Update, with(instance(), policies1(observe, late)), author("*")), masked{[]string{observe, late}, `["*"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}},
		"Unmasked":          {"masked for the first time by the gate controller, at its own pace", setting{opts: enforced()}, request(Update, unmasked()), masked{Policies: []string{"*"}}},
		"UnmaskedChange":    {"unless an accepted change opens it", accepted, request(Update, unmasked(), resize("l")), opened([]string{observe, update}, size)},
		"Forged":            {"nobody but us writes the gate or the remembered value", setting{opts: enforced()}, request(Update, instance(), gateValue(`{"state":"open","verbs":["Delete"],"at":null}`), annotate(v1alpha1.AnnotationKeyManagementPolicies, `["Observe"]`)).by(alice, "kubectl"), closed},
		"ForgedGate":        {"a Composition neither", setting{opts: enforced()}, request(Update, instance(), gateValue(`{"state":"open","verbs":["Delete"],"at":null}`)), closed},
		"Dropped":           {"or removes them", setting{opts: enforced()}, request(Update, instance(), unannotate(v1alpha1.AnnotationKeyGate, v1alpha1.AnnotationKeyManagementPolicies)), closed},
		"Function":          {"the function's mask of a while ago is not the author's value", setting{opts: enforced()}, request(Update, instance(), stale...), closed},
		"FunctionOpens":     {"it brings a change and its own opening: the change opens", accepted, request(Update, instance(), append(function(`{"state":"open","verbs":["Update"],"generation":4,"at":"2026-01-02T11:30:00Z"}`, `["*"]`, observe, update), resize("l"))...), opened([]string{observe, update}, size)},
		"FunctionCloses":    {"it closes what is open: that is left to the gate controller", setting{opts: enforced()}, request(Update, with(instance(), openForRegion...), function(shut, `["*"]`, observe)...), masked{[]string{observe, update}, `["*"]`, v1alpha1.GateOpen, verbs(update), 3, []string{"spec.forProvider.region"}, ""}},
		"FunctionAdopts":    {"it masks for the first time: at the gate controller's pace", setting{opts: enforced()}, request(Update, unmasked(), function(shut, `["*"]`, observe)...), masked{Policies: []string{"*"}}},
		"FunctionAuthors":   {"the author's value behind its mask is another, and it announces that", accepted, request(Update, instance(), less(`["Observe","Create"]`), announced), masked{[]string{observe}, `["Observe","Create"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}},
		"FunctionRepeats":   {"it repeats what the author wrote before", accepted, request(Update, with(instance(), less(`["Observe","Create","Update"]`)), less(`["*"]`)), masked{[]string{observe}, `["Observe","Create","Update"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}},
		"FunctionNoMask":    {"policies that are no mask over what comes with them are their author's", accepted, request(Update, instance(), function(shut, `["Observe","Create"]`, observe, update)...), masked{[]string{observe}, `["Observe","Update"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}},
		"FunctionPaused":    {"its first mask comes after somebody paused the MR", setting{opts: enforced()}, request(Update, with(unmasked(), author()), function(shut, `["*"]`, observe)...), masked{Policies: []string{}}},
		"FunctionObserve":   {"or took all but Observe away", accepted, request(Update, with(unmasked(), author(observe)), function(shut, `["*"]`, observe)...), masked{Policies: []string{observe}}},
		"FunctionLog":       {"log mode masks nothing", setting{}, request(Update, instance(), stale...), masked{Policies: []string{"*"}}},
		"FunctionLogAdopts": {"nor does it lose the author's value to a first mask", setting{}, request(Update, unmasked(), function(shut, `["*"]`, observe)...), masked{Policies: []string{"*"}}},
		"FunctionLogAuthor": {"or keep an old one", setting{xr: []mod{unsettled}}, request(Update, instance(), less(`["Observe","Create"]`), announced), masked{Policies: []string{observe, create}}},
		"FunctionLogPaused": {"nor is somebody's [\"Observe\"] undone", setting{}, request(Update, with(unmasked(), author(observe)), function(shut, `["*"]`, observe)...), masked{Policies: []string{observe}}},
		"FunctionDeleting":  {"nor does what is being deleted gain Delete by it", setting{}, request(Update, with(unmasked(), author(observe, create, update), deleting), function(shut, `["*"]`, observe)...), masked{Policies: []string{observe}}},
		"FunctionPerson":    {"a person who writes the same means it", setting{opts: enforced()}, request(Update, instance(), stale...).by(alice, "kubectl"), masked{[]string{observe}, `["Observe","Create","Update","LateInitialize"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}},
		"LogCreate":         {"log mode masks nothing", setting{xr: []mod{unsettled}}, request(Create, unmasked()), masked{Policies: []string{"*"}}},
		"LogRestored":       {"and unmasks a restored backup", setting{xr: []mod{unsettled}}, request(Create, instance()).by(alice, "velero"), masked{Policies: []string{"*"}}},
		"LogChange":         {"log mode masks nothing", setting{xr: []mod{unsettled}}, request(Update, unmasked(), resize("l")), masked{Policies: []string{"*"}}},
		"LogAuthors":        {"the author's value stands again: nothing is remembered that could outlive its next change", setting{}, request(Update, instance(), author("*")), masked{Policies: []string{"*"}}},
		"Terminating":       {"nothing of ours takes Delete from an MR that is being deleted", accepted, request(Update, with(instance(), append(openForDelete, deleting)...), resize("l")), masked{[]string{observe, remove}, `["*"]`, v1alpha1.GateOpen, verbs(v1alpha1.VerbDelete), 3, nil, ""}},
		"TerminatingWide":   {"nor where the policies are wider than the gate", accepted, request(Update, with(instance(), policies1("*"), deleting), resize("l")), masked{[]string{"*"}, `["*"]`, v1alpha1.GateClosed, nil, 3, nil, "Confirmed"}},
		"TerminatingAll":    {"nor from one that was never masked", accepted, request(Update, with(unmasked(), deleting), resize("l")), masked{Policies: []string{"*"}}},
		"TerminatingClosed": {"a re-apply does not give Delete to one that was to be left behind", accepted, request(Update, with(instance(), deleting), author("*")), closed},
	}
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
			if d.Class == ClassNone && tc.req.OldObject != nil {
				if got, want := result.GetAnnotations()[v1alpha1.AnnotationKeyTrace], tc.req.OldObject.GetAnnotations()[v1alpha1.AnnotationKeyTrace]; got != want {
					t.Errorf("%s: no change, and another trace: %s", tc.reason, got)
				}
			}
			addsNothing(t, tc.reason, d, result)
		})
	}
}

// addsNothing asserts that a mask never adds to what the author gave.
func addsNothing(t *testing.T, reason string, d Decision, result *unstructured.Unstructured) {
	t.Helper()
	author := mask.AuthorOf(result.GetAnnotations(), mask.PoliciesOf(result))
	for _, p := range d.ManagementPolicies {
		if !mask.Gives(author, v1alpha1.Verb(p)) && !mask.Same(author, d.ManagementPolicies) {
			t.Errorf("%s: adds %s to %v", reason, p, author)
		}
	}
}

// What log mode let the author change is what enforce masks later.
func TestAuthorSurvivesLogMode(t *testing.T) {
	less := []any{observe, create}
	inLog := request(Update, instance(), policies1(less...))
	d := decide(t, setting{}.world(), Options{}, inLog)
	stored := apply(inLog.Object, d)
	back := request(Update, stored, policies1(less...), resize("l")).by(alice, "kubectl")
	d = decide(t, setting{}.world(), enforced(), back)
	if got := maskedOf(apply(back.Object, d)); got.Author != `["Observe","Create"]` {
		t.Errorf("the author's value is now %s, masked as %v", got.Author, got.Policies)
	}
}

// The gate that the decision carries is the one it stores.
func TestGateInDecision(t *testing.T) {
	req := request(Update, instance(), resize("l"))
	d := decide(t, setting{xr: []mod{unsettled}}.world(), enforced(), req)
	raw, err := json.Marshal(d.Gate)
	if err != nil || d.Annotations[v1alpha1.AnnotationKeyGate] == nil || *d.Annotations[v1alpha1.AnnotationKeyGate] != string(raw) {
		t.Errorf("decided %s (%v), stored %s", raw, err, text(d.Annotations))
	}
	if d.Trace.Own().Generation != d.Gate.Generation {
		t.Errorf("the hop is at %d, the gate at %d", d.Trace.Own().Generation, d.Gate.Generation)
	}
}

// A change behind an open gate that asks for what is there already is marked: that
// it is there does not show that the provider has seen it.
func TestUnproven(t *testing.T) {
	open := with(instance(), policies1(observe, update), gateValue(openUpdate), set("l", "spec", "forProvider", "size"), set("s", "status", "atProvider", "size"))
	cases := map[string]struct {
		reason string
		mr     *unstructured.Unstructured
		size   string
		want   bool
	}{
		"Back":       {"asked for l in between, which the provider may be about to make", open, "s", true},
		"On":         {"what is not there yet proves that it was seen", open, "m", false},
		"Closed":     {"nothing was opened before", with(instance(), set("l", "spec", "forProvider", "size"), set("s", "status", "atProvider", "size")), "s", false},
		"Unreported": {"nothing is there to compare: another rule waits", with(open, set(map[string]any{"region": "eu"}, "status", "atProvider")), "s", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := setting{xr: []mod{unsettled}}.world()
			d := decide(t, w, enforced(), request(Update, tc.mr, resize(tc.size)))
			if d.Gate == nil || d.Gate.State != v1alpha1.GateOpen || d.Gate.Unproven != tc.want {
				t.Errorf("%s: gate %+v", tc.reason, d.Gate)
			}
		})
	}
}
