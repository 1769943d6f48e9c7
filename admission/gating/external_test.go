package gating

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A gate is open for the external resource that it was opened for, and what was approved
// before is not about another one (KR-13-18).
func TestRetargetedGate(t *testing.T) {
	name := func(n string) fx.Mod { return fx.Annotate(v1alpha1.AnnotationKeyExternalName, n) }
	gate := func(state, verb, external string) fx.Mod {
		return func(o *unstructured.Unstructured) {
			if fx.Policies(fx.Observe)(o); state == "open" {
				fx.Policies(fx.Observe, verb)(o)
			}
			fx.GateValue(`{"state":"` + state + `","verbs":["` + verb + `"],"generation":3,"at":"2026-01-02T11:59:00Z"` + external + `}`)(o)
		}
	}
	const scratch = `,"external":{"name":"scratch"}`
	xr := fx.Composite()
	sum := parent.Sum(xr, parent.RoleComposite)
	list := []*parent.State{parent.Sum(fx.Instance(), parent.RoleManaged)}
	whole := fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+identity.WholeOf(sum, list).Digest.ID(), "generation")
	always := fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","relation":"External","verbs":["Update","Delete"],"mode":"always"}]`)
	cases := map[string]struct {
		reason string
		mr, xr []fx.Mod
		later  time.Duration
		want   Action
		state  v1alpha1.GateState
		record string
	}{
		"OpenSame": {reason: "it is the one", mr: []fx.Mod{name("scratch"), gate("open", fx.Delete, scratch)}},
		"OpenOther": {reason: "the webhook did not see the change",
			mr: []fx.Mod{name("prod"), gate("open", fx.Delete, scratch)}, want: ActionClose, state: v1alpha1.GateClosed, record: "scratch"},
		"OpenOtherUpdate": {reason: "nor for an update",
			mr: []fx.Mod{name("prod"), gate("open", fx.Update, scratch)}, want: ActionClose, state: v1alpha1.GateClosed, record: "scratch"},
		"OpenUnknown": {reason: "an older release opened it", mr: []fx.Mod{name("prod"), gate("open", fx.Delete, "")}},
		"Created": {reason: "its provider named it",
			mr: []fx.Mod{name("vpc-0123"), gate("open", fx.Create, "")}, want: ActionOpen, state: v1alpha1.GateOpen, record: "vpc-0123"},
		"CreatedAgain": {reason: "in place of the object's name",
			mr:   []fx.Mod{name("vpc-0123"), gate("open", fx.Create, `,"external":{"name":"inst"}`)},
			want: ActionOpen, state: v1alpha1.GateOpen, record: "vpc-0123"},
		"CreatedOther": {reason: "it had a name",
			mr: []fx.Mod{name("prod"), gate("open", fx.Create, scratch)}, want: ActionClose, state: v1alpha1.GateClosed, record: "scratch"},
		"ClosedWhole": {reason: "the whole was approved before",
			mr: []fx.Mod{name("prod"), gate("closed", fx.Delete, scratch)}, xr: []fx.Mod{whole}},
		"ClosedAlways": {reason: "so was this", mr: []fx.Mod{name("prod"), gate("closed", fx.Delete, scratch)}, xr: []fx.Mod{always}},
		"ClosedTampered": {reason: "no update of another one",
			mr: []fx.Mod{name("prod"), gate("closed", fx.Update, scratch), fx.Tampered}, xr: []fx.Mod{always}},
		"ClosedInTime": {reason: "its provider had the time to report",
			mr: []fx.Mod{name("prod"), gate("closed", fx.Update, scratch)}, later: 2 * DefaultDeadline,
			want: ActionClose, state: v1alpha1.GateClosed, record: "prod"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := gatingOf(fx.With(fx.Instance(), append([]fx.Mod{fx.Ready, fx.Synced}, tc.mr...)...), fx.With(xr, tc.xr...))
			g.Now = g.Now.Add(tc.later)
			d := decideGate(t, g)
			if d.Action != tc.want || d.Gate.State != tc.state {
				t.Fatalf("%s: %q (%s), gate %+v", tc.reason, d.Action, d.Why, d.Gate)
			}
			if tc.record != "" && (d.Gate.External == nil || d.Gate.External.Name != tc.record) {
				t.Errorf("%s: on record is %+v", tc.reason, d.Gate.External)
			}
		})
	}
}
