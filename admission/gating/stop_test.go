package gating

import (
	"strings"
	"testing"
	"time"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/settings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A freeze and a rejection go before any approval: of external drift, of the
// deletion of one MR, of all below an XR (KR-08-05).
func TestDecideStopped(t *testing.T) {
	drifted := fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Tampered)
	mr, xr := parent.Sum(drifted, parent.RoleManaged), parent.Sum(fx.Composite(), parent.RoleComposite)
	drift := decideGate(t, gatingOf(drifted, fx.Composite())).Drift.ID
	freeze := fx.Annotate(v1alpha1.AnnotationKeyFreeze, `{"user":"hans","message":"incident"}`)
	reject := func(what string) fx.Mod {
		return fx.Annotate(v1alpha1.AnnotationKeyRejections, `[{"kind":"Instance",`+what+`,"reason":"not before the audit"}]`)
	}
	cases := map[string]struct {
		reason string
		stop   fx.Mod
		onMR   fx.Mod
		want   Action
		why    string
	}{
		"Nothing": {reason: "approved, it opens", want: ActionOpen},
		"Frozen":  {reason: "the XR is frozen", stop: freeze, want: ActionNone, why: "frozen by hans (incident)"},
		"FrozenUnreadable": {reason: "what does not parse counts as frozen", stop: fx.Annotate(v1alpha1.AnnotationKeyFreeze, `{`),
			want: ActionNone, why: "counts as frozen"},
		"NotFrozen": {reason: "false is not frozen", stop: fx.Annotate(v1alpha1.AnnotationKeyFreeze, "false"), want: ActionOpen},
		"FrozenMR":  {reason: "a freeze on the MR itself", onMR: freeze, want: ActionNone, why: "frozen by hans"},
		"FrozenDeleting": {reason: "what is being deleted is not frozen: its cleanup must finish",
			stop: func(o *unstructured.Unstructured) { freeze(o); fx.Deleting(o) }, want: ActionOpen},
		"Rejected": {reason: "a rejection by name", stop: reject(`"name":"inst"`), want: ActionNone,
			why: "not before the audit"},
		"RejectedResource": {reason: "by the name in the Composition", stop: reject(`"resource":"instance"`), want: ActionNone,
			why: "not before the audit"},
		"RejectedOther":   {reason: "of another MR", stop: reject(`"name":"other"`), want: ActionOpen},
		"RejectedEarlier": {reason: "for earlier intents only", stop: reject(`"name":"inst","generation":4`), want: ActionOpen},
	}
	deletion, whole := identity.DeletionDigest(xr, mr).ID(), identity.WholeOf(xr, []*parent.State{mr}).Digest.ID()
	for what, id := range map[string]string{"Drift": drift, "Deletion": deletion, "Whole": whole} {
		for name, tc := range cases {
			t.Run(what+"/"+name, func(t *testing.T) {
				above, below := fx.With(fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+id, "once")), drifted
				if tc.stop != nil {
					above = fx.With(above, tc.stop)
				}
				if tc.onMR != nil {
					below = fx.With(below, tc.onMR)
				}
				d := decideGate(t, gatingOf(below, above))
				if d.Action != tc.want {
					t.Fatalf("%s: got %q (%s)", tc.reason, d.Action, d.Why)
				}
				if d.Action == ActionNone && d.Drift == nil {
					t.Errorf("%s: the drift is still reported", tc.reason)
				}
				if what == "Drift" && !strings.Contains(d.Why, tc.why) {
					t.Errorf("%s: reason %q", tc.reason, d.Why)
				}
			})
		}
	}
}

// A gate that a freeze with an expiry keeps closed is decided about again when that ends (KR-14-37).
func TestDecideAgainWhenThawed(t *testing.T) {
	drifted := fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Tampered)
	for name, tc := range map[string]struct {
		freeze string
		by     identity.Covering
		again  time.Duration
	}{
		"Parent":   {freeze: `{"expiry":"` + fx.Noon.Add(time.Minute).UTC().Format(time.RFC3339) + `"}`, again: time.Minute},
		"NoExpiry": {freeze: "true"},
		"Over":     {freeze: `{"expiry":"2020-01-01T00:00:00Z"}`},
		"Policy": {again: time.Hour, by: identity.Covering{Policies: []settings.PolicyFreeze{{Policy: "all",
			Freeze: v1alpha1.Freeze{Expiry: &metav1.Time{Time: fx.Noon.Add(time.Hour)}}}}}},
	} {
		above := fx.Composite()
		if tc.freeze != "" {
			above = fx.With(above, fx.Annotate(v1alpha1.AnnotationKeyFreeze, tc.freeze))
		}
		g := gatingOf(drifted, above)
		g.Now, g.Covering = fx.Noon, tc.by
		if d := decideGate(t, g); d.Action != ActionNone || d.Again != tc.again {
			t.Errorf("%s: got %q again in %s, want %s", name, d.Action, d.Again, tc.again)
		}
	}
}

// While the policy is suspended no approval opens a gate, and the drift is reported as ever (KR-12-13).
func TestDecideSuspended(t *testing.T) {
	drifted := fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Tampered)
	mr, xr := parent.Sum(drifted, parent.RoleManaged), parent.Sum(fx.Composite(), parent.RoleComposite)
	drift := decideGate(t, gatingOf(drifted, fx.Composite())).Drift.ID
	deletion, whole := identity.DeletionDigest(xr, mr).ID(), identity.WholeOf(xr, []*parent.State{mr}).Digest.ID()
	for what, id := range map[string]string{"Drift": drift, "Deletion": deletion, "Whole": whole} {
		above := fx.With(fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+id, "once"))
		g := gatingOf(drifted, above)
		if d := decideGate(t, g); d.Action != ActionOpen {
			t.Errorf("%s: without suspension got %q (%s)", what, d.Action, d.Why)
		}
		g.Suspended = true
		if d := decideGate(t, g); d.Action != ActionNone || d.Drift == nil || d.Drift.ID != drift {
			t.Errorf("%s: got %q, drift %v", what, d.Action, d.Drift)
		}
	}
}
