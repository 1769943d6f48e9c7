package admission

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestFrozenFromOutside covers the freezes of a Namespace and of a policy (KR-14-31, KR-14-33, KR-14-34, KR-14-35): they
// are as that of a parent, in both modes.
func TestFrozenFromOutside(t *testing.T) {
	ahead, over := metav1.NewTime(fx.Noon.Add(time.Hour)), metav1.NewTime(fx.Noon)
	stamp := func(at metav1.Time) string { return at.UTC().Format(time.RFC3339) }
	cases := map[string]struct {
		reason    string
		namespace settings.Namespace
		policies  []settings.PolicyFreeze
		xr        []fx.Mod
		elsewhere bool
		frozen    bool
		message   []string
	}{
		"Namespace": {reason: "of the object", namespace: settings.Namespace{Freeze: `{"user":"bob","message":"audit","at":"2026-01-02T00:00:00Z"}`},
			frozen: true, message: []string{"Frozen: ", "was frozen with Namespace team by bob at 2026-01-02T00:00:00Z (audit). " +
				"To unfreeze: kubectl annotate namespace team kausality.io/freeze-"}},
		"True":  {reason: "the older form", namespace: settings.Namespace{Freeze: "true"}, frozen: true},
		"False": {reason: "no freeze", namespace: settings.Namespace{Freeze: "false"}},
		"Other": {reason: "that of another Namespace", namespace: settings.Namespace{Freeze: "true"}, elsewhere: true},
		"Unreadable": {reason: "what does not parse counts as a freeze", namespace: settings.Namespace{Freeze: "{"}, frozen: true,
			message: []string{"does not parse", "counts as frozen"}},
		"Terminating": {reason: "its cleanup must finish", namespace: settings.Namespace{Freeze: "true", Terminating: true}},
		"Ahead": {reason: "not over yet", namespace: settings.Namespace{Freeze: `{"expiry":"` + stamp(ahead) + `"}`}, frozen: true,
			message: []string{"until " + stamp(ahead)}},
		"Over":           {reason: "an ended freeze is none", namespace: settings.Namespace{Freeze: `{"expiry":"` + stamp(over) + `"}`}},
		"ParentDeleting": {reason: "what is being deleted is not frozen", namespace: settings.Namespace{Freeze: "true"}, xr: []fx.Mod{fx.Deleting}},
		"FalseOnTheOwner": {reason: "it is no exemption", namespace: settings.Namespace{Freeze: "true"},
			xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFreeze, "false")}, frozen: true},
		"Approved": {reason: "no approval lifts it", namespace: settings.Namespace{Freeze: "true"}, frozen: true,
			xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","mode":"always"}]`)}},
		"Initializing": {reason: "not even before the parent is initialized", namespace: settings.Namespace{Freeze: "true"}, frozen: true,
			xr: []fx.Mod{fx.Unannotate(v1alpha1.AnnotationKeyPhase)}},
		"OwnFirst": {reason: "the parent's own is named first", namespace: settings.Namespace{Freeze: "true"}, frozen: true,
			xr:      []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFreeze, `{"user":"eve"}`)},
			message: []string{"XDatabase db was frozen by eve. To unfreeze: kubectl annotate xdatabases"}},
		"Policy": {reason: "of a policy", policies: []settings.PolicyFreeze{{Policy: "all", Freeze: v1alpha1.Freeze{User: "bob"}}}, frozen: true,
			message: []string{"XDatabase db was frozen with Kausality policy all by bob. ",
				`kubectl patch kausality all --type=json -p '[{"op":"remove","path":"/spec/freeze"}]'`}},
		"PolicyOver": {reason: "ended", policies: []settings.PolicyFreeze{{Policy: "all", Freeze: v1alpha1.Freeze{Expiry: &over}}}},
		"PolicyNext": {reason: "another one has not", policies: []settings.PolicyFreeze{{Policy: "a", Freeze: v1alpha1.Freeze{Expiry: &over}}, {Policy: "b"}},
			frozen: true, message: []string{"policy b"}},
		"None": {reason: "nothing is frozen"},
	}
	for name, tc := range cases {
		for _, mode := range []v1alpha1.Mode{v1alpha1.ModeEnforce, v1alpha1.ModeLog} {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				w := setting{xr: tc.xr}.world()
				w.declared = map[string]settings.Namespace{"team": tc.namespace}
				namespace := "team"
				if tc.elsewhere {
					namespace = "other"
				}
				o := stubs{Options: Options{DefaultMode: mode}, settings: func(_ parent.Ref, _ map[string]string) settings.Settings {
					return settings.Settings{Policy: "all", Freezes: tc.policies}
				}}
				d := decide(t, w, o, byCrossplane(Update, fx.With(fx.Instance(), fx.Set(namespace, "metadata", "namespace")), fx.Resize("l")))
				if frozen := d.Reason == outcome.ReasonFrozen; frozen != tc.frozen || frozen && (d.Allowed || d.Code != 422) {
					t.Fatalf("%s: got %+v: %s", tc.reason, outcomeOf(d), d.Message)
				}
				for _, want := range tc.message {
					if !strings.Contains(d.Message, want) {
						t.Errorf("%s: want %q in %q", tc.reason, want, d.Message)
					}
				}
			})
		}
	}
}

// TestFrozenIsReadLive: no request is refused because a cache has a freeze that has been removed (KR-05-20, KR-14-33).
func TestFrozenIsReadLive(t *testing.T) {
	w := setting{xr: []fx.Mod{fx.Unannotate(v1alpha1.AnnotationKeyPhase)}}.world()
	w.declared = map[string]settings.Namespace{"team": {Freeze: "true"}}
	w.liveNamespaces = map[string]settings.Namespace{"team": {}}
	req := byCrossplane(Update, fx.With(fx.Instance(), fx.Set("team", "metadata", "namespace")), fx.Resize("l"))
	if d := decide(t, w, enforced(), req); d.Reason == outcome.ReasonFrozen {
		t.Errorf("got %+v: %s", outcomeOf(d), d.Message)
	}
}
