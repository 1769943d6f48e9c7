package admission

import (
	"strings"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A deletion that is approved and stopped is refused for what stops it: no gate
// is "being opened" for it.
func TestDeleteStopped(t *testing.T) {
	for name, tc := range map[string]struct {
		stop fx.Mod
		want outcome.Reason
	}{
		"Frozen": {stop: fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true"), want: outcome.ReasonFrozen},
		"Rejected": {stop: fx.Annotate(v1alpha1.AnnotationKeyRejections, `[{"kind":"*","name":"*","reason":"audit"}]`),
			want: outcome.ReasonRejected},
		"Neither": {stop: fx.Annotate(v1alpha1.AnnotationKeyFreeze, "false"), want: outcome.ReasonExternalDeletion},
	} {
		t.Run(name, func(t *testing.T) {
			s := parent.Sum(fx.Composite(), parent.RoleComposite)
			id := identity.WholeOf(s, []*parent.State{parent.Sum(fx.Instance(), parent.RoleManaged)}).Digest.ID()
			whole := fx.With(fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+id, "once"), tc.stop)
			w := setting{}.world()
			w.managed = []*parent.State{parent.Sum(fx.Instance(), parent.RoleManaged)}
			if d := decide(t, w, enforced(), by(byCrossplane(Delete, whole), fx.Alice, "")); d.Allowed || d.Reason != tc.want {
				t.Errorf("the XR: %s: %s", d.Reason, d.Message)
			}
			one := setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+identity.DeletionDigest(s,
				parent.Sum(fx.Instance(), parent.RoleManaged)).ID(), "once"), tc.stop}}
			if d := decide(t, one.world(), enforced(), by(byCrossplane(Delete, fx.Instance()), fx.Alice, "")); d.Allowed || d.Reason != tc.want {
				t.Errorf("the MR: %s: %s", d.Reason, d.Message)
			}
		})
	}
}

// Delete has a deadline of its own: an accepted change does not prolong it, and
// it does not shorten that of the change (KR-08-09).
func TestDeleteDeadline(t *testing.T) {
	forDelete := fx.With(fx.Instance(), fx.Policies(fx.Observe, fx.Delete),
		fx.GateValue(`{"state":"open","verbs":["Delete"],"generation":3,"at":"2026-01-02T11:10:00Z"}`))
	changed := apply(byCrossplane(Update, forDelete, fx.Resize("l")).Object, decide(t, setting{xr: []fx.Mod{fx.Unsettled}}.world(), enforced(),
		byCrossplane(Update, forDelete, fx.Resize("l"))))
	gate := mask.ParseGate(changed.GetAnnotations())
	if gate.DeleteAt == nil || gate.DeleteAt.UTC().Format(time.RFC3339) != "2026-01-02T11:10:00Z" || !gate.At.Time.Equal(fx.Noon) {
		t.Fatalf("changed at noon: %+v", gate)
	}
	at := func(d time.Duration, mods ...fx.Mod) gating.Decision {
		g := gatingOf(fx.With(changed, append([]fx.Mod{fx.Set(int64(4), "metadata", "generation")}, mods...)...), fx.Composite())
		g.Now = fx.Noon.Add(d)
		return g.Decide()
	}
	unseen, seen := fx.Condition("Synced", "False", "R", 4), fx.Condition("Synced", "True", "R", 4)
	if d := at(9*time.Minute, unseen); d.Action != gating.ActionNone || d.Again != time.Minute {
		t.Errorf("before both: %s, again in %s", d.Action, d.Again)
	}
	if d := at(10*time.Minute, unseen); d.Action != gating.ActionOpen || fx.Joined(d.Gate.Verbs) != fx.Update || d.Gate.DeleteAt != nil ||
		!d.Gate.At.Time.Equal(fx.Noon) ||
		d.Gate.Reason != v1alpha1.GateReasonExpired || strings.Join(d.Policies, ",") != "Observe,Update" || len(d.Gate.Paths) == 0 {
		t.Errorf("Delete ends alone: %s %+v %v", d.Action, d.Gate, d.Policies)
	}
	if d := at(10*time.Minute, unseen, fx.Set("us", "status", "atProvider", "region")); d.Action != gating.ActionClose ||
		d.Gate.Reason != v1alpha1.GateReasonPending {
		t.Errorf("Delete ends, and what differs elsewhere would be applied: %s %+v", d.Action, d.Gate)
	}
	if d := at(time.Hour, unseen); d.Action != gating.ActionClose || d.Gate.Reason != v1alpha1.GateReasonExpired || d.Gate.DeleteAt != nil {
		t.Errorf("past both: %s %+v", d.Action, d.Gate)
	}
	if d := at(time.Minute, seen, fx.Set("l", "status", "atProvider", "size")); d.Action != gating.ActionOpen ||
		fx.Joined(d.Gate.Verbs) != fx.Delete || d.Gate.DeleteAt == nil {
		t.Errorf("the change is confirmed: %s %+v", d.Action, d.Gate)
	}
	if d := at(10*time.Minute, seen, fx.Set("l", "status", "atProvider", "size")); d.Action != gating.ActionClose || d.Gate.Reason != v1alpha1.GateReasonExpired {
		t.Errorf("the change is confirmed, Delete at its end: %s %+v", d.Action, d.Gate)
	}

	// The other way round: an approval of the deletion does not prolong a change.
	updating := fx.With(fx.Instance(), fx.Policies(fx.Observe, fx.Update), fx.GateValue(fx.OpenUpdate), fx.Synced, fx.Tampered)
	xr := parent.Sum(fx.Composite(), parent.RoleComposite)
	whole := identity.WholeOf(xr, []*parent.State{parent.Sum(updating, parent.RoleManaged)})
	approved := fx.With(fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+whole.Digest.ID(), "once"))
	d := gatingOf(updating, approved).Decide()
	if d.Action != gating.ActionOpen || d.Gate.At.UTC().Format(time.RFC3339) != "2026-01-02T11:30:00Z" || d.Gate.DeleteAt == nil ||
		!d.Gate.DeleteAt.Time.Equal(fx.Noon) {
		t.Fatalf("approved at noon: %s %+v", d.Action, d.Gate)
	}
	both := fx.With(updating, fx.GateValue(mask.FormatGate(d.Gate)), fx.Set(int64(4), "metadata", "generation"))
	g := gatingOf(both, approved)
	g.Now = fx.Noon.Add(31 * time.Minute)
	if d := g.Decide(); d.Action != gating.ActionOpen || fx.Joined(d.Gate.Verbs) != fx.Delete || d.Gate.Reason != v1alpha1.GateReasonExpired || d.Again != 0 {
		t.Errorf("the change ends alone: %s %+v", d.Action, d.Gate)
	}
}
