package admission

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// kausalityOf an object: its annotations of our domain but those that every
// change rewrites.
func kausalityOf(o *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for k, v := range o.GetAnnotations() {
		if v1alpha1.IsKausality(k) && k != v1alpha1.AnnotationKeyTrace && k != v1alpha1.AnnotationKeyUpdaters &&
			k != v1alpha1.AnnotationKeyGate && k != v1alpha1.AnnotationKeyManagementPolicies {
			out[k] = v
		}
	}
	return out
}

// userSet has every user annotation, systemSet every system one but those of
// the mask.
var (
	userSet = map[string]string{
		v1alpha1.AnnotationKeyApprovals: `[{"kind":"X","name":"a","mode":"always"}]`, v1alpha1.AnnotationKeyRejections: `[{"kind":"X","name":"a","reason":"r"}]`,
		v1alpha1.AnnotationKeyApprovePrefix + "dddddddddddddddd": "always", v1alpha1.AnnotationKeyFreeze: "false",
		v1alpha1.AnnotationKeySnooze:       "2027-01-01T00:00:00Z",
		v1alpha1.AnnotationKeyLegacySnooze: "2027-01-01T00:00:00Z", v1alpha1.AnnotationKeyMode: "log", v1alpha1.AnnotationKeyDeletion: "orphan",
		v1alpha1.AnnotationKeyTraceLabelPrefix + "ticket": "OPS-1",
	}
	composedSet = map[string]string{v1alpha1.AnnotationKeyMode: "log", v1alpha1.AnnotationKeyDeletion: "orphan",
		v1alpha1.AnnotationKeyTraceLabelPrefix + "ticket": "OPS-1",
		v1alpha1.AnnotationKeyHeld:                        `{"reason":"Drift"}`, v1alpha1.AnnotationKeySettledFields: `[]`,
		v1alpha1.AnnotationKeySettledIntent: `{"generation":1}`, v1alpha1.AnnotationKeyHeldCreations: `[]`}
	systemSet = map[string]string{
		v1alpha1.AnnotationKeyTrace: `[]`, v1alpha1.AnnotationKeyAllowances: `[]`, v1alpha1.AnnotationKeyUpdaters: "xxxxx",
		v1alpha1.AnnotationKeyControllers: "xxxxx",
		v1alpha1.AnnotationKeyPhase:       "initialized", v1alpha1.AnnotationKeyInitialized: "true", v1alpha1.AnnotationKeySettledGeneration: "99",
		v1alpha1.AnnotationKeySettledState: "99,0",
		v1alpha1.AnnotationKeyFingerprint:  "x", v1alpha1.AnnotationKeyLegacyFingerprint: "x", v1alpha1.AnnotationKeyLastUpgrade: "x",
		v1alpha1.AnnotationKeyClaims: `[{"content":"c","state":"used",` +
			`"at":null}]`, v1alpha1.AnnotationKeyDerivedFrom: "x", v1alpha1.AnnotationKeyHeld: `{"reason":"Drift"}`,
		v1alpha1.AnnotationKeySettledFields: `[]`, v1alpha1.AnnotationKeySettledIntent: `{"generation":1}`, v1alpha1.AnnotationKeyHeldCreations: `[]`,
		"kausality.io/of-a-newer-version": "x",
	}
)

func all(sets ...map[string]string) fx.Mod {
	return func(o *unstructured.Unstructured) {
		for _, s := range sets {
			for k, v := range s {
				fx.Annotate(k, v)(o)
			}
		}
	}
}

func without(sets ...map[string]string) fx.Mod {
	return func(o *unstructured.Unstructured) {
		for _, s := range sets {
			for k := range s {
				fx.Unannotate(k)(o)
			}
		}
	}
}

// userDecisions on an object, about its children.
func userDecisions(o *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	if o != nil {
		maps.Copy(out, o.GetAnnotations())
	}
	maps.DeleteFunc(out, func(key, _ string) bool { return !v1alpha1.NeedsApproverVerb(key) })
	return out
}

// Protection of annotations: who may add, change and remove what
// (KR-02-09, KR-02-10, KR-02-11, KR-02-12).
func TestProtection(t *testing.T) {
	free := map[string]string{v1alpha1.AnnotationKeyControllers: fx.Provider.Hash(), v1alpha1.AnnotationKeyControllerIDs: fx.Provider.ID()}
	plus := func(sets ...map[string]string) map[string]string {
		out := maps.Clone(free)
		for _, s := range sets {
			maps.Copy(out, s)
		}
		return out
	}
	having := func(sets ...map[string]string) *unstructured.Unstructured {
		return fx.With(fx.Instance(), all(sets...))
	}
	everything := all(userSet, systemSet)
	created := map[string]string{}

	cases := map[string]struct {
		reason  string
		op      Operation
		old     *unstructured.Unstructured
		change  []fx.Mod
		user    subject.User
		manager string
		want    map[string]string
	}{
		"PersonAdds": {reason: "user annotations are free", op: Update, old: fx.Instance(), change: []fx.Mod{everything},
			user: fx.Alice, manager: "kubectl", want: plus(userSet)},
		"PersonAddsAlong": {reason: "desired state changed or not", op: Update, old: fx.Instance(),
			change: []fx.Mod{everything, fx.Resize("l")}, user: fx.Alice, manager: "kubectl", want: plus(userSet)},
		"PersonRemoves": {reason: "user annotations are free", op: Update, old: having(userSet), change: []fx.Mod{without(userSet)},
			user: fx.Alice, manager: "kubectl", want: free},
		"PersonRemovesAll": {reason: "system ones come back", op: Update, old: fx.Instance(), change: []fx.Mod{without(systemSet)},
			user: fx.Alice, manager: "kubectl", want: free},
		"PersonChanges": {reason: "user annotations are free", op: Update, old: having(userSet),
			change: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyMode, "enforce")}, user: fx.Alice, manager: "kubectl",
			want: plus(userSet, map[string]string{v1alpha1.AnnotationKeyMode: "enforce"})},
		"GitOpsAdds": {reason: "GitOps is free as well", op: Update, old: fx.Instance(), change: []fx.Mod{everything}, user: fx.ArgoCD,
			manager: "argocd", want: plus(userSet)},
		"GitOpsAddsAlong": {reason: "desired state changed or not", op: Update, old: fx.Instance(),
			change: []fx.Mod{everything, fx.Resize("l")}, user: fx.ArgoCD, manager: "argocd", want: plus(userSet)},
		"OwnController": {reason: "controllers copy annotations back", op: Update, old: fx.Instance(),
			change: []fx.Mod{everything, fx.Resize("l")}, user: fx.Provider, manager: "provider", want: free},
		"OwnControllerMeta": {reason: "without a change too", op: Update, old: fx.Instance(), change: []fx.Mod{everything}, user: fx.Provider,
			manager: "provider", want: free},
		"OwnRemoves": {reason: "user annotations keep their stored value", op: Update, old: having(userSet),
			change: []fx.Mod{without(userSet), fx.Resize("l")}, user: fx.Provider, manager: "provider", want: plus(userSet)},
		"Parent": {reason: "controllers copy annotations down", op: Update, old: fx.Instance(),
			change: []fx.Mod{everything, fx.Resize("l")}, user: fx.Crossplane, want: free},
		"ParentMeta": {reason: "without a change too", op: Update, old: fx.Instance(), change: []fx.Mod{everything},
			user: fx.Crossplane, want: free},
		"ParentRemoves": {reason: "user annotations keep their stored value", op: Update, old: having(userSet),
			change: []fx.Mod{without(userSet)}, user: fx.Crossplane, want: plus(userSet)},
		"Composed": {reason: "a Composition sets mode, deletion and labels", op: Update, old: fx.Instance(),
			change: []fx.Mod{everything, fx.Resize("l")}, user: fx.Crossplane, manager: fx.ComposedManager, want: plus(composedSet)},
		"ComposedMeta": {reason: "without a change too", op: Update, old: fx.Instance(), change: []fx.Mod{everything},
			user: fx.Crossplane, manager: fx.ComposedManager, want: plus(composedSet)},
		"ComposedRemoves": {reason: "and removes them", op: Update, old: having(userSet), change: []fx.Mod{without(userSet)},
			user: fx.Crossplane, manager: fx.ComposedManager, want: plus(map[string]string{
				v1alpha1.AnnotationKeyApprovals: userSet[v1alpha1.AnnotationKeyApprovals], v1alpha1.AnnotationKeyRejections: userSet[v1alpha1.AnnotationKeyRejections],
				v1alpha1.AnnotationKeyApprovePrefix +
					"dddddddddddddddd": "always", v1alpha1.AnnotationKeyFreeze: "false",
				v1alpha1.AnnotationKeySnooze:       userSet[v1alpha1.AnnotationKeySnooze],
				v1alpha1.AnnotationKeyLegacySnooze: userSet[v1alpha1.AnnotationKeyLegacySnooze]})},
		"CreateByPerson": {reason: "user annotations stay, system ones are computed", op: Create, old: fx.Unmasked(),
			change: []fx.Mod{everything}, user: fx.Alice, manager: "kubectl", want: plus(userSet)},
		"CreateByParent": {reason: "wiped and computed afresh", op: Create, old: fx.Unmasked(), change: []fx.Mod{everything},
			user: fx.Crossplane, want: created},
		"CreateByComposed": {reason: "but mode, deletion and labels", op: Create, old: fx.Unmasked(), change: []fx.Mod{everything},
			user: fx.Crossplane, manager: fx.ComposedManager, want: composedSet},
		"CreateByGitOpsLone": {reason: "as by a person", op: Create, old: fx.With(fx.Unmasked(), plainOwner), change: []fx.Mod{everything},
			user: fx.ArgoCD, manager: "argocd", want: userSet},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := setting{xr: []fx.Mod{fx.Unsettled}}.world()
			req := by(byCrossplane(tc.op, tc.old, tc.change...), tc.user, tc.manager)
			d := decide(t, w, Options{}, req)
			if !d.Allowed {
				t.Fatalf("%s: refused: %s", tc.reason, d.Message)
			}
			want := maps.Clone(tc.want)
			if tc.op == Create {
				delete(want, v1alpha1.AnnotationKeyControllers)
				delete(want, v1alpha1.AnnotationKeyControllerIDs)
			}
			result := apply(req.Object, d)
			if diff := cmp.Diff(want, kausalityOf(result)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if want := !maps.Equal(userDecisions(tc.old), userDecisions(result)); d.ChangesUserAnnotation != want {
				t.Errorf("%s: ChangesUserAnnotation is %t, want %t: the decisions went from %v to %v", tc.reason, d.ChangesUserAnnotation, want,
					userDecisions(tc.old), userDecisions(result))
			}
			for key, forged := range map[string]string{v1alpha1.AnnotationKeyTrace: "[]", v1alpha1.AnnotationKeyUpdaters: "xxxxx"} {
				if result.GetAnnotations()[key] == forged {
					t.Errorf("%s: %s was forged", tc.reason, key)
				}
			}
		})
	}
}

// Our own components write system annotations (KR-04-15).
func TestProtectionOfComponents(t *testing.T) {
	req := by(byCrossplane(Update, fx.Instance(), all(systemSet)), fx.GateController, "kausality")
	if d := decide(t, setting{}.world(), enforced(), req); !d.Allowed || len(d.Annotations) > 0 {
		t.Errorf("got %+v, %s", outcomeOf(d), text(d.Annotations))
	}
}

// A user annotation that does not parse is refused with the parse error, unless
// it is a controller's copy, which is undone; what is stored already is not
// refused (KR-02-02).
func TestMalformedUserAnnotation(t *testing.T) {
	bad := fx.Annotate(v1alpha1.AnnotationKeyFreeze, "hm")
	badMode := fx.Annotate(v1alpha1.AnnotationKeyMode, "hm")
	cases := map[string]struct {
		reason  string
		req     *Request
		refused bool
	}{
		"Person": {reason: "the parse error", req: by(byCrossplane(Update, fx.Composite(), bad), fx.Alice, "kubectl"), refused: true},
		"PersonAlong": {reason: "with a change too",
			req: by(byCrossplane(Update, fx.Composite(), bad, fx.Set("l", "spec", "size")), fx.Alice, "kubectl"), refused: true},
		"PersonCreate": {reason: "on CREATE too", req: by(byCrossplane(Create, fx.Composite(), bad), fx.Alice, "kubectl"), refused: true},
		"PersonChanges": {reason: "from one that parses",
			req: by(byCrossplane(Update, fx.With(fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyFreeze, "false")), bad), fx.Alice, "kubectl"), refused: true},
		"GitOps": {reason: "GitOps too", req: by(byCrossplane(Update, fx.Composite(), bad), fx.ArgoCD, "argocd"), refused: true},
		"Stored": {reason: "it was stored before",
			req: by(byCrossplane(Update, fx.With(fx.Composite(), bad), fx.Set("l", "spec", "size")), fx.Alice, "kubectl")},
		"Repaired": {reason: "taking it away",
			req: by(byCrossplane(Update, fx.With(fx.Composite(), bad), fx.Unannotate(v1alpha1.AnnotationKeyFreeze)), fx.Alice, "kubectl")},
		"Copy": {reason: "a controller copies what is on the parent: undone, not refused",
			req: by(byCrossplane(Create, fx.Unmasked(), bad), fx.Crossplane, "")},
		"CopyMeta":     {reason: "without a change too", req: by(byCrossplane(Update, fx.Instance(), bad), fx.Provider, "provider")},
		"Composed":     {reason: "a Composition's freeze is ignored", req: byCrossplane(Update, fx.Instance(), bad)},
		"ComposedMode": {reason: "its mode counts, so it must parse", req: byCrossplane(Update, fx.Instance(), badMode), refused: true},
		"OwnComponent": {reason: "ours are not checked", req: by(byCrossplane(Update, fx.Composite(), bad), fx.GateController, "kausality")},
		"ForeignDomain": {reason: "none of our business",
			req: by(byCrossplane(Update, fx.Composite(), fx.Annotate("example.org/freeze", "hm")), fx.Alice, "kubectl")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, setting{xr: []fx.Mod{fx.Unsettled}}.world(), Options{}, tc.req)
			if d.Allowed == tc.refused {
				t.Fatalf("%s: got %+v: %s", tc.reason, outcomeOf(d), d.Message)
			}
			if tc.refused && (d.Code != 422 || d.Reason != outcome.ReasonInvalidAnnotation || !strings.Contains(d.Message, "does not parse")) {
				t.Errorf("%s: got %+v: %s", tc.reason, outcomeOf(d), d.Message)
			}
		})
	}
}

// Traces: a parent's controller extends the parent's, any other user
// starts a new one, self writes keep it (KR-02-14, KR-07-01, KR-07-02, KR-07-03, KR-07-04).
func TestTrace(t *testing.T) {
	kinds := func(tr trace.Trace) (out []string) {
		for _, h := range tr {
			out = append(out, h.Kind+" by "+h.User)
		}
		return out
	}
	away := func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"manager": "kubectl", "operation": "Update", "time": "2026-01-02T11:30:00Z",
			"fieldsV1": map[string]any{"f:spec": map[string]any{"f:size": map[string]any{}}}}}, "metadata", "managedFields")
	}
	label := fx.Annotate(v1alpha1.AnnotationKeyTraceLabelPrefix+"ticket", "OPS-1")
	cases := map[string]struct {
		reason     string
		xr         []fx.Mod
		req        *Request
		want       []string
		generation int64
		labels     map[string]string
	}{
		"Expected": {reason: "extends the parent's", xr: []fx.Mod{fx.Unsettled}, req: byCrossplane(Update, fx.Instance(), fx.Resize("l")),
			want: []string{"XDatabase by alice", "Instance by " + fx.Crossplane.Name}, generation: 4},
		"Create": {reason: "generation 1 after the write", xr: []fx.Mod{fx.Unsettled}, req: byCrossplane(Create, fx.Unmasked()),
			want: []string{"XDatabase by alice", "Instance by " + fx.Crossplane.Name}, generation: 1},
		"Drift": {reason: "no intent explains a logged drift (KR-07-09)", req: byCrossplane(Update, fx.Instance(), fx.Resize("l")),
			want: []string{"Instance by " + fx.Crossplane.Name}, generation: 4},
		"NewOrigin": {reason: "replaces it", req: by(byCrossplane(Update, fx.Instance(), fx.Resize("l")), fx.Alice, "kubectl"),
			want: []string{"Instance by alice"}, generation: 4},
		"NoParent": {reason: "an origin", req: by(byCrossplane(Update, fx.Composite(), fx.Set("l", "spec", "size")), fx.Alice, "kubectl"),
			want: []string{"XDatabase by alice"}, generation: 8},
		"Away": {reason: "the previous initiator is not to blame for what happened while we were away", xr: []fx.Mod{away},
			req: byCrossplane(Update, fx.Instance(), fx.Resize("l")), want: []string{"XDatabase by ", "Instance by " + fx.Crossplane.Name}, generation: 4},
		"Labels": {reason: "of the object's own hop",
			req: by(byCrossplane(Update, fx.With(fx.Instance(), label), fx.Resize("l")), fx.Alice, "kubectl"), want: []string{"Instance by alice"}, generation: 4,
			labels: map[string]string{"ticket": "OPS-1"}},
		"NoChange": {reason: "kept", req: byCrossplane(Update, fx.Instance()),
			want: []string{"XDatabase by alice", "Instance by " + fx.Crossplane.Name}, generation: 3},
		"Self": {reason: "kept", req: by(byCrossplane(Update, fx.Instance(), fx.Resize("l")), fx.Provider, "p"),
			want: []string{"XDatabase by alice", "Instance by " + fx.Crossplane.Name}, generation: 3},
		"Machinery": {reason: "kept: Crossplane's bumps are no intents",
			req: by(byCrossplane(Update, fx.Composite(), fx.Set([]any{}, "spec", "resourceRefs")), fx.Crossplane, "crossplane"), want: []string{"XDatabase by alice"},
			generation: 5},
		"Nameless": {reason: "no name at admission", xr: []fx.Mod{fx.Unsettled}, req: byCrossplane(Create, fx.With(fx.Unmasked(), generated)),
			want: []string{"XDatabase by alice", "Instance by " + fx.Crossplane.Name}, generation: 1},
		"Generation": {reason: "kinds without one",
			req:  by(byCrossplane(Create, fx.Object(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}, data: {a: b}}`)), fx.Alice, "kubectl"),
			want: []string{"ConfigMap by alice"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, setting{xr: tc.xr}.world(), Options{}, tc.req)
			stored := trace.Of(apply(tc.req.Object, d).GetAnnotations())
			if diff := cmp.Diff(tc.want, kinds(stored)); diff != "" {
				t.Fatalf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			own := stored.Own()
			if own.Generation != tc.generation || !cmp.Equal(own.Labels, tc.labels) {
				t.Errorf("%s: got generation %d, labels %v", tc.reason, own.Generation, own.Labels)
			}
			if d.Trace != nil && !cmp.Equal(stored, d.Trace) {
				t.Errorf("%s: stored is another one:\n%s", tc.reason, cmp.Diff(stored, d.Trace))
			}
			if stored.Origin().Unattributed != (name == "Away") {
				t.Errorf("%s: origin %+v", tc.reason, stored.Origin())
			}
		})
	}
}

// The updaters of a child: newest last, the parent's controllers spared (KR-02-04).
func TestUpdaters(t *testing.T) {
	five := []string{fx.Crossplane.Hash(), "a", "b", "c", "d"}
	req := by(byCrossplane(Update, fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyUpdaters, strings.Join(five, ","))), fx.Resize("l")),
		fx.Alice, "kubectl")
	d := decide(t, setting{}.world(), Options{}, req)
	want := strings.Join([]string{fx.Crossplane.Hash(), "b", "c", "d", fx.Alice.Hash()}, ",")
	if got := apply(req.Object, d).GetAnnotations()[v1alpha1.AnnotationKeyUpdaters]; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

// Size: past 32 KiB a clear refusal that names the object and the size (KR-02-15).
func TestTraceTooLarge(t *testing.T) {
	large := func(label string) fx.Mod {
		return fx.Annotate(v1alpha1.AnnotationKeyTraceLabelPrefix+label, strings.Repeat("x", v1alpha1.MaxAnnotationBytes/2))
	}
	d := decide(t, setting{}.world(), Options{},
		by(byCrossplane(Update, fx.Composite(), large("x"), large("y"), fx.Set("l", "spec", "size")), fx.Alice, "kubectl"))
	if d.Allowed || d.Reason != outcome.ReasonAnnotationTooLarge || !strings.Contains(d.Message, "XDatabase db") || !strings.Contains(d.Message, "bytes") {
		t.Errorf("got %+v: %s", outcomeOf(d), d.Message)
	}
}

// A holder's approvals are admitted, and pruned by its next intent (KR-05-37).
func TestKeepApprovals(t *testing.T) {
	once := fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"Instance","name":"inst"}]`)
	req := by(byCrossplane(Update, fx.Composite(), once), fx.Alice, "kubectl")
	d := decide(t, newWorld(), Options{}, req)
	stored := apply(req.Object, d)
	if c := stored.GetAnnotations()[v1alpha1.AnnotationKeyClaims]; !strings.Contains(c, `"state":"open","generation":7`) {
		t.Errorf("want it admitted at the XR's generation, got %s", c)
	}
	next := by(byCrossplane(Update, stored, fx.Set("l", "spec", "size")), fx.Alice, "kubectl")
	d = decide(t, newWorld(), Options{}, next)
	if got := apply(next.Object, d).GetAnnotations(); got[v1alpha1.AnnotationKeyApprovals] != "" ||
		!strings.Contains(got[v1alpha1.AnnotationKeyClaims], `"pruned"`) {
		t.Errorf("want it pruned by the new intent, got %v", got)
	}
	bump := by(byCrossplane(Update, stored, fx.Set([]any{}, "spec", "resourceRefs")), fx.Crossplane, "crossplane")
	d = decide(t, newWorld(), Options{}, bump)
	if got := apply(bump.Object, d).GetAnnotations(); got[v1alpha1.AnnotationKeyApprovals] == "" {
		t.Error("Crossplane's own bump is no intent: the approval stays")
	}
	stale := by(byCrossplane(Update, fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyApprovals,
		`[{"kind":"Instance","name":"inst","generation":2}]`)), fx.Alice, "kubectl")
	d = decide(t, newWorld(), Options{}, stale)
	if got := apply(stale.Object, d).GetAnnotations(); got[v1alpha1.AnnotationKeyApprovals] == "" ||
		!strings.Contains(got[v1alpha1.AnnotationKeyClaims], `"pruned"`) {
		t.Errorf("out of date on arrival: it stays without effect, got %v", got)
	}
}
