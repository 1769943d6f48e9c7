package admission

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// wantedOutcome of a decision, as far as a row of the decision table determines it.
type wantedOutcome struct {
	allowed bool
	class   outcome.Class
	reason  outcome.Reason
	code    int32
}

func allowed(c outcome.Class, r outcome.Reason) wantedOutcome { return wantedOutcome{true, c, r, 0} }
func refused(c outcome.Class, r outcome.Reason, code int32) wantedOutcome {
	return wantedOutcome{false, c, r, code}
}

func outcomeOf(d Decision) wantedOutcome { return wantedOutcome{d.Allowed, d.Class, d.Reason, d.Code} }

// setting of a row: the objects beside the XR in steady state.
type setting struct {
	xr   []fx.Mod
	opts Options
	prep func(*memoryWorld)
}

func (s setting) world() *memoryWorld {
	w := newWorld()
	w.add(fx.With(fx.Composite(), s.xr...))
	if s.prep != nil {
		s.prep(w)
	}
	return w
}

const (
	approveAll  = `[{"kind":"*","name":"*","mode":"always"}]`
	rejectAll   = `[{"kind":"*","name":"*","reason":"not today"}]`
	freezeValue = `{"user":"bob","message":"audit","at":"2026-01-02T00:00:00Z"}`
)

func gone(w *memoryWorld)       { w.live = nil }
func unreadable(w *memoryWorld) { w.err = errors.New("connection refused") }

// resizing is an apply by Crossplane of another size, to an Instance with mods.
func resizing(mods ...fx.Mod) *Request {
	return byCrossplane(Update, fx.With(fx.Instance(), mods...), fx.Resize("l"))
}

// frozen is a freeze of the parent.
var frozen = fx.Annotate(v1alpha1.AnnotationKeyFreeze, freezeValue)

// row of the decision table.
type row struct {
	reason  string
	setting setting
	req     *Request
	// want under enforce and under log.
	want [2]wantedOutcome
}

// inBoth modes the outcome is the same.
func inBoth(o wantedOutcome) [2]wantedOutcome { return [2]wantedOutcome{o, o} }

// testRows decides each row under enforce and under log.
func testRows(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, tc := range rows {
		for i, mode := range []v1alpha1.Mode{v1alpha1.ModeEnforce, v1alpha1.ModeLog} {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				opts := tc.setting.opts
				opts.DefaultMode = mode
				d := decide(t, tc.setting.world(), opts, tc.req)
				if got := outcomeOf(d); got != tc.want[i] {
					t.Errorf("%s: want %+v, got %+v: %s", tc.reason, tc.want[i], got, d.Message)
				}
				if d.Allowed != (d.Message == "") {
					t.Errorf("%s: a refusal and only a refusal has a message: %q", tc.reason, d.Message)
				}
				warned := d.Reason == outcome.ReasonDriftLogged || d.Reason == outcome.ReasonParentUnreadable ||
					d.Reason == outcome.ReasonParentNotFound && tc.req.Operation != Delete
				if d.Allowed && warned && len(d.Warnings) == 0 {
					t.Errorf("%s: passes under log without a warning", tc.reason)
				}
				drift := d.Reason == outcome.ReasonDrift || d.Reason == outcome.ReasonDriftLogged || d.Reason == outcome.ReasonExternalDeletion
				if drift != (d.Report != nil) {
					t.Errorf("%s: report %v", tc.reason, d.Report)
				}
			})
		}
	}
}

// TestRowsBeforeParent covers what is decided without the parent (KR-04-15, KR-05-00, KR-05-01, KR-05-02).
func TestRowsBeforeParent(t *testing.T) {
	orphan := fx.Annotate(v1alpha1.AnnotationKeyDeletion, "orphan")
	testRows(t, map[string]row{
		"0 DeleteMR": {reason: "the deletion of the external resource is decided first, for every user", setting: setting{},
			req:  by(byCrossplane(Delete, fx.Instance()), fx.Alice, ""),
			want: [2]wantedOutcome{refused("", outcome.ReasonExternalDeletion, 403), refused("", outcome.ReasonExternalDeletion, 403)}},
		"0 DeleteMRComponent": {reason: "our own components too", setting: setting{},
			req: by(byCrossplane(Delete, fx.Instance()), fx.GateController, ""), want: inBoth(refused("", outcome.ReasonExternalDeletion, 403))},
		"0 DeleteMROrphan": {reason: "it does not refuse: go on", setting: setting{},
			req: by(byCrossplane(Delete, fx.Instance(), orphan), fx.Alice, ""), want: inBoth(allowed(outcome.ClassNewOrigin, outcome.ReasonNewOrigin))},
		"1 Component": {reason: "written by one of ours", setting: setting{xr: []fx.Mod{frozen}},
			req: by(resizing(), fx.GateController, "kausality"), want: inBoth(allowed("", outcome.ReasonComponent))},
		"1 NoChange": {reason: "no desired-state change", setting: setting{xr: []fx.Mod{frozen}},
			req: byCrossplane(Update, fx.Instance(), fx.Annotate("a", "b")), want: inBoth(allowed("", outcome.ReasonNoChange))},
		"1 StatusChange": {reason: "the status is no desired state", setting: setting{xr: []fx.Mod{frozen}},
			req: byCrossplane(Update, fx.Instance(), fx.Set("m", "status", "atProvider", "size")), want: inBoth(allowed("", outcome.ReasonNoChange))},
		"1 NoParent": {reason: "no controller parent", setting: setting{},
			req:  by(byCrossplane(Update, fx.Composite(), fx.Set("l", "spec", "size")), fx.Alice, "kubectl"),
			want: inBoth(allowed(outcome.ClassNewOrigin, outcome.ReasonNoParent))},
		"1 OwnerNoCtrl": {reason: "an owner without controller: true", setting: setting{},
			req:  by(byCrossplane(Update, fx.With(fx.Instance(), plainOwner), fx.Resize("l")), fx.Alice, "kubectl"),
			want: inBoth(allowed(outcome.ClassNewOrigin, outcome.ReasonNoParent))},
		"1 BeingDeleted": {reason: "the object itself is being deleted", setting: setting{xr: []fx.Mod{frozen}},
			req: byCrossplane(Update, fx.With(fx.Instance(), fx.Deleting), fx.Resize("l")), want: inBoth(allowed("", outcome.ReasonBeingDeleted))},
		"2 Self": {reason: "late initialisation by the provider", setting: setting{xr: []fx.Mod{frozen}},
			req: by(resizing(), fx.Provider, "provider"), want: inBoth(allowed(outcome.ClassSelf, outcome.ReasonSelf))},
	})
}

// TestRowsOfParent covers what is decided by the state of the parent (KR-05-03, KR-05-04, KR-05-05, KR-05-06, KR-05-07, KR-05-22, KR-05-69).
func TestRowsOfParent(t *testing.T) {
	orphan, xrDeleting := fx.Annotate(v1alpha1.AnnotationKeyDeletion, "orphan"), fx.Mod(fx.Deleting)
	fresh := func(o *unstructured.Unstructured) { // an XR that was never ready
		fx.Unannotate(v1alpha1.AnnotationKeyPhase, v1alpha1.AnnotationKeySettledGeneration)(o)
		unstructured.RemoveNestedField(o.Object, "status")
	}
	testRows(t, map[string]row{
		"3 NotFound": {reason: "Crossplane's own apply is 422", setting: setting{prep: gone}, req: resizing(),
			want: [2]wantedOutcome{refused("", outcome.ReasonParentNotFound, 422), allowed("", outcome.ReasonParentNotFound)}},
		"3 NotFoundOther": {reason: "422 for any user", setting: setting{prep: gone}, req: by(resizing(), fx.Alice, "kubectl"),
			want: [2]wantedOutcome{refused("", outcome.ReasonParentNotFound, 422), allowed("", outcome.ReasonParentNotFound)}},
		"3 OtherUID": {reason: "another UID is NotFound", setting: setting{xr: []fx.Mod{fx.Set("other", "metadata", "uid")}},
			req: by(resizing(), fx.Alice, "kubectl"), want: [2]wantedOutcome{refused("", outcome.ReasonParentNotFound, 422), allowed("", outcome.ReasonParentNotFound)}},
		"3 NotFoundGCOrphan": {reason: "garbage collection must work: of what is to be left behind", setting: setting{prep: gone},
			req: by(byCrossplane(Delete, fx.Instance(), orphan), fx.Collector, ""), want: inBoth(allowed("", outcome.ReasonParentNotFound))},
		"3 NotFoundGCClosed": {reason: "but a missing parent requests no deletion of what is outside", setting: setting{prep: gone},
			req: by(byCrossplane(Delete, fx.Instance()), fx.Collector, ""), want: inBoth(refused("", outcome.ReasonExternalDeletion, 403))},
		"4 Unreadable": {reason: "500: the controller retries", setting: setting{prep: unreadable},
			req: by(resizing(), fx.Deployer, ""), want: [2]wantedOutcome{refused("", outcome.ReasonParentUnreadable, 500), allowed("", outcome.ReasonParentUnreadable)}},
		"5 Deleting": {reason: "cleanup must finish, frozen or not", setting: setting{xr: []fx.Mod{xrDeleting, frozen}},
			req: resizing(), want: inBoth(allowed(outcome.ClassDrift, outcome.ReasonParentDeleted))},
		"5 ComposedTooLate": {reason: "Crossplane read the composite before it was deleted", setting: setting{xr: []fx.Mod{xrDeleting}},
			req: byCrossplane(Create, fx.Unmasked()), want: [2]wantedOutcome{refused(outcome.ClassDrift, outcome.ReasonStaleRead, 422),
				allowed(outcome.ClassDrift, outcome.ReasonParentDeleted)}},
		"5 AdoptedTooLate": {reason: "so it is with what a user created meanwhile", setting: setting{xr: []fx.Mod{xrDeleting}},
			req:  byCrossplane(Update, fx.With(fx.Unmasked(), owners()), owners(owner("db", "xr-uid", true)), fx.Resize("l")),
			want: [2]wantedOutcome{refused(outcome.ClassDrift, outcome.ReasonStaleRead, 422), allowed(outcome.ClassDrift, outcome.ReasonParentDeleted)}},
		"6 Frozen": {reason: "in both modes", setting: setting{xr: []fx.Mod{frozen}}, req: by(resizing(), fx.Deployer, ""),
			want: inBoth(refused(outcome.ClassNewOrigin, outcome.ReasonFrozen, 403))},
		"6 FrozenComposed": {reason: "Crossplane's own apply is 422", setting: setting{xr: []fx.Mod{frozen}}, req: resizing(),
			want: inBoth(refused(outcome.ClassDrift, outcome.ReasonFrozen, 422))},
		"6 FrozenExpected": {reason: "ALL child mutations", setting: setting{xr: []fx.Mod{fx.Unsettled, frozen}}, req: resizing(),
			want: inBoth(refused(outcome.ClassExpected, outcome.ReasonFrozen, 422))},
		"6 FrozenInit": {reason: "a freeze precedes initializing", setting: setting{xr: []fx.Mod{fresh, frozen}},
			req: resizing(), want: inBoth(refused(outcome.ClassExpected, outcome.ReasonFrozen, 422))},
		"6 FrozenBad": {reason: "what does not parse counts as frozen",
			setting: setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFreeze, "hm")}}, req: resizing(),
			want: inBoth(refused(outcome.ClassDrift, outcome.ReasonFrozen, 422))},
		"6 FreezeFalse": {reason: "not frozen",
			setting: setting{xr: []fx.Mod{fx.Unsettled, fx.Annotate(v1alpha1.AnnotationKeyFreeze, "false")}}, req: resizing(),
			want: inBoth(allowed(outcome.ClassExpected, outcome.ReasonExpected))},
		"7 Initializing": {reason: "the first settling",
			setting: setting{xr: []fx.Mod{fresh, fx.Annotate(v1alpha1.AnnotationKeyRejections, rejectAll)}}, req: resizing(),
			want: inBoth(allowed(outcome.ClassExpected, outcome.ReasonInitializing))},
		"7 InitializingOther": {reason: "for every user", setting: setting{xr: []fx.Mod{fresh}}, req: by(resizing(), fx.Alice, "kubectl"),
			want: inBoth(allowed(outcome.ClassNewOrigin, outcome.ReasonInitializing))},
	})
}

// TestRowsOfChange covers what is decided by the class of the change, rejections and approvals
// (KR-04-08, KR-04-09, KR-04-10, KR-05-08, KR-05-09, KR-05-11, KR-05-13, KR-05-22, KR-05-28).
func TestRowsOfChange(t *testing.T) {
	orphan := fx.Annotate(v1alpha1.AnnotationKeyDeletion, "orphan")
	testRows(t, map[string]row{
		"8 Expected": {reason: "not settled since the last intent", setting: setting{xr: []fx.Mod{fx.Unsettled}}, req: resizing(),
			want: inBoth(allowed(outcome.ClassExpected, outcome.ReasonExpected))},
		"8 ExpectedRejected": {reason: "rejections are about drift",
			setting: setting{xr: []fx.Mod{fx.Unsettled, fx.Annotate(v1alpha1.AnnotationKeyRejections, rejectAll)}}, req: resizing(),
			want: inBoth(allowed(outcome.ClassExpected, outcome.ReasonExpected))},
		"8 NewOrigin": {reason: "another user", setting: setting{}, req: by(resizing(), fx.Alice, "kubectl"),
			want: inBoth(allowed(outcome.ClassNewOrigin, outcome.ReasonNewOrigin))},
		"9 Rejected": {reason: "in both modes",
			setting: setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyRejections, rejectAll)}}, req: resizing(),
			want: inBoth(refused(outcome.ClassDrift, outcome.ReasonRejected, 422))},
		"9 RejectedGood": {reason: "a rejection goes before an approval",
			setting: setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyRejections, rejectAll, v1alpha1.AnnotationKeyApprovals, approveAll)}},
			req:     resizing(), want: inBoth(refused(outcome.ClassDrift, outcome.ReasonRejected, 422))},
		"9 RejectedBad": {reason: "what does not parse rejects everything",
			setting: setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyRejections, "{")}}, req: resizing(),
			want: inBoth(refused(outcome.ClassDrift, outcome.ReasonRejected, 422))},
		"11 Approved": {reason: "any approval matches",
			setting: setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, approveAll)}}, req: resizing(),
			want: inBoth(allowed(outcome.ClassDrift, outcome.ReasonApproved))},
		"11 ApprovedByName": {reason: "by the composition resource name",
			setting: setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals,
				`[{"kind":"X","name":"a"},{"kind":"Instance","resource":"instance","mode":"always"}]`)}},
			req: resizing(), want: inBoth(allowed(outcome.ClassDrift, outcome.ReasonApproved))},
		"11 ApprovalStale": {reason: "older than the intent",
			setting: setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","mode":"generation","generation":4}]`)}},
			req:     resizing(), want: [2]wantedOutcome{refused(outcome.ClassDrift, outcome.ReasonDrift, 422), allowed(outcome.ClassDrift, outcome.ReasonDriftLogged)}},
		"11 ApprovalBad": {reason: "what does not parse is absent",
			setting: setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, "{")}}, req: resizing(),
			want: [2]wantedOutcome{refused(outcome.ClassDrift, outcome.ReasonDrift, 422), allowed(outcome.ClassDrift, outcome.ReasonDriftLogged)}},
		"13 Drift": {reason: "an unrequested change", setting: setting{}, req: resizing(),
			want: [2]wantedOutcome{refused(outcome.ClassDrift, outcome.ReasonDrift, 422), allowed(outcome.ClassDrift, outcome.ReasonDriftLogged)}},
		"13 DriftNoManager": {reason: "403 unless it is Crossplane's apply", setting: setting{}, req: by(resizing(), fx.Crossplane, ""),
			want: [2]wantedOutcome{refused(outcome.ClassDrift, outcome.ReasonDrift, 403), allowed(outcome.ClassDrift, outcome.ReasonDriftLogged)}},
		"13 DriftCreate": {reason: "creating is a change", setting: setting{}, req: byCrossplane(Create, fx.Unmasked()),
			want: [2]wantedOutcome{refused(outcome.ClassDrift, outcome.ReasonDrift, 422), allowed(outcome.ClassDrift, outcome.ReasonDriftLogged)}},
		"13 DriftDelete": {reason: "deleting is one", setting: setting{}, req: byCrossplane(Delete, fx.Instance(), orphan),
			want: [2]wantedOutcome{refused(outcome.ClassDrift, outcome.ReasonDrift, 403), allowed(outcome.ClassDrift, outcome.ReasonDriftLogged)}},
		"13 Snoozed": {reason: "snooze never changes a decision",
			setting: setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeySnooze, "2027-01-01T00:00:00Z")}}, req: resizing(),
			want: [2]wantedOutcome{refused(outcome.ClassDrift, outcome.ReasonDrift, 422), allowed(outcome.ClassDrift, outcome.ReasonDriftLogged)}},
	})
}

func plainOwner(o *unstructured.Unstructured) {
	refs := o.GetOwnerReferences()
	refs[0].Controller = nil
	o.SetOwnerReferences(refs)
}

// An unreadable namespace mode decides nothing: an error, not a refusal.
func TestModeUnreadable(t *testing.T) {
	w := setting{}.world()
	e := &Evaluator{World: failingNamespaces{w}}
	req := byCrossplane(Update, fx.With(fx.Instance(), fx.Set("team", "metadata", "namespace")), fx.Resize("l"))
	if _, err := e.Evaluate(t.Context(), req); err == nil || !strings.Contains(err.Error(), "cannot read mode of namespace team") {
		t.Errorf("got %v", err)
	}
}

// Mode by precedence: object, Namespace, default; the stored object counts, so
// that one request cannot switch itself to log (KR-04-12, KR-05-21).
func TestModePrecedence(t *testing.T) {
	namespaced := func(mods ...fx.Mod) *unstructured.Unstructured {
		return fx.With(fx.Instance(), append(mods, fx.Set("team", "metadata", "namespace"))...)
	}
	mode := func(m string) fx.Mod { return fx.Annotate(v1alpha1.AnnotationKeyMode, m) }
	cases := map[string]struct {
		reason    string
		old       *unstructured.Unstructured
		change    []fx.Mod
		namespace v1alpha1.Mode
		byDefault v1alpha1.Mode
		want      v1alpha1.Mode
	}{
		"Default": {reason: "log where none is given", old: fx.Instance(), want: v1alpha1.ModeLog},
		"Option":  {reason: "--default-mode", old: fx.Instance(), byDefault: v1alpha1.ModeEnforce, want: v1alpha1.ModeEnforce},
		"Namespace": {reason: "over the default", old: namespaced(), namespace: v1alpha1.ModeEnforce,
			byDefault: v1alpha1.ModeLog, want: v1alpha1.ModeEnforce},
		"Object": {reason: "over the Namespace", old: namespaced(mode("log")), namespace: v1alpha1.ModeEnforce,
			byDefault: v1alpha1.ModeEnforce, want: v1alpha1.ModeLog},
		"Stored": {reason: "not the one the request brings", old: namespaced(), change: []fx.Mod{mode("log")},
			namespace: v1alpha1.ModeEnforce, want: v1alpha1.ModeEnforce},
		"StoredRemoved": {reason: "not the one the request drops", old: namespaced(mode("enforce")),
			change: []fx.Mod{fx.Unannotate(v1alpha1.AnnotationKeyMode)}, want: v1alpha1.ModeEnforce},
		"Garbage": {reason: "an unknown mode is ignored", old: namespaced(mode("nope")), namespace: v1alpha1.ModeEnforce,
			want: v1alpha1.ModeEnforce},
		"NamespaceBogus": {reason: "nor in a Namespace", old: namespaced(), namespace: "nope", byDefault: v1alpha1.ModeLog,
			want: v1alpha1.ModeLog},
		"OtherNamespaces": {reason: "a cluster-scoped object has none", old: fx.Instance(), namespace: v1alpha1.ModeEnforce,
			byDefault: v1alpha1.ModeLog, want: v1alpha1.ModeLog},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := setting{}.world()
			w.namespaces["team"] = tc.namespace
			req := byCrossplane(Update, tc.old, append(tc.change, fx.Resize("l"))...)
			if d := decide(t, w, Options{DefaultMode: tc.byDefault}, req); d.Mode != tc.want || d.Allowed == (tc.want == v1alpha1.ModeEnforce) {
				t.Errorf("%s: want %s, got %s, allowed %t", tc.reason, tc.want, d.Mode, d.Allowed)
			}
		})
	}
}

// One request cannot drop its parent either: the stored ownerReferences count (KR-04-12).
func TestStoredParentCounts(t *testing.T) {
	w := setting{}.world()
	req := byCrossplane(Update, fx.Instance(), fx.Resize("l"), func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) })
	if d := decide(t, w, enforced(), req); d.Allowed || d.Class != outcome.ClassDrift {
		t.Errorf("got %+v", outcomeOf(d))
	}
}

// TestComposedRefusalCode covers KR-05-24.
func TestComposedRefusalCode(t *testing.T) {
	opts := enforced()
	opts.ComposedRefusalCode = 403
	if d := decide(t, setting{}.world(), opts, byCrossplane(Update, fx.Instance(), fx.Resize("l"))); d.Code != 403 {
		t.Errorf("--composed-refusal-status=403: got %d", d.Code)
	}
}
