package admission

import (
	"strings"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A deletion that is approved and stopped is refused for what stops it: no gate
// is "being opened" for it.
func TestDeleteStopped(t *testing.T) {
	for name, tc := range map[string]struct {
		stop mod
		want Reason
	}{
		"Frozen": {stop: annotate(v1alpha1.AnnotationKeyFreeze, "true"), want: ReasonFrozen},
		"Rejected": {stop: annotate(v1alpha1.AnnotationKeyRejections, `[{"kind":"*","name":"*","reason":"audit"}]`),
			want: ReasonRejected},
		"Neither": {stop: annotate(v1alpha1.AnnotationKeyFreeze, "false"), want: ReasonExternalDeletion},
	} {
		t.Run(name, func(t *testing.T) {
			s := parent.Sum(composite(), parent.RoleComposite)
			whole := with(composite(), annotate(v1alpha1.AnnotationKeyApprovePrefix+identity.DeletionID(s, s), "once"), tc.stop)
			w := setting{}.world()
			w.managed = []*parent.State{parent.Sum(instance(), parent.RoleManaged)}
			if d := decide(t, w, enforced(), by(request(Delete, whole), alice, "")); d.Allowed || d.Reason != tc.want {
				t.Errorf("the XR: %s: %s", d.Reason, d.Message)
			}
			one := setting{xr: []mod{annotate(v1alpha1.AnnotationKeyApprovePrefix+identity.DeletionID(s, parent.Sum(instance(), parent.RoleManaged)), "once"), tc.stop}}
			if d := decide(t, one.world(), enforced(), by(request(Delete, instance()), alice, "")); d.Allowed || d.Reason != tc.want {
				t.Errorf("the MR: %s: %s", d.Reason, d.Message)
			}
		})
	}
}

// Delete has a deadline of its own: an accepted change does not prolong it, and
// it does not shorten that of the change (KR-08-09).
func TestDeleteDeadline(t *testing.T) {
	forDelete := with(instance(), policies1(observe, remove), gateValue(`{"state":"open","verbs":["Delete"],"generation":3,"at":"2026-01-02T11:10:00Z"}`))
	changed := apply(request(Update, forDelete, resize("l")).Object, decide(t, setting{xr: []mod{unsettled}}.world(), enforced(),
		request(Update, forDelete, resize("l"))))
	gate := mask.ParseGate(changed.GetAnnotations())
	if gate.DeleteAt == nil || gate.DeleteAt.UTC().Format(time.RFC3339) != "2026-01-02T11:10:00Z" || !gate.At.Time.Equal(noon) {
		t.Fatalf("changed at noon: %+v", gate)
	}
	at := func(d time.Duration, mods ...mod) gating.Decision {
		g := gatingOf(with(changed, append([]mod{set(int64(4), "metadata", "generation")}, mods...)...), composite())
		g.Now = noon.Add(d)
		return g.Decide()
	}
	unseen, seen := condition("Synced", "False", "R", 4), condition("Synced", "True", "R", 4)
	if d := at(9*time.Minute, unseen); d.Action != gating.ActionNone || d.Again != time.Minute {
		t.Errorf("before both: %s, again in %s", d.Action, d.Again)
	}
	if d := at(10*time.Minute, unseen); d.Action != gating.ActionOpen || joined(d.Gate.Verbs) != update || d.Gate.DeleteAt != nil || !d.Gate.At.Time.Equal(noon) ||
		d.Gate.Reason != v1alpha1.GateReasonExpired || strings.Join(d.Policies, ",") != "Observe,Update" || len(d.Gate.Paths) == 0 {
		t.Errorf("Delete ends alone: %s %+v %v", d.Action, d.Gate, d.Policies)
	}
	if d := at(10*time.Minute, unseen, set("us", "status", "atProvider", "region")); d.Action != gating.ActionClose ||
		d.Gate.Reason != v1alpha1.GateReasonPending {
		t.Errorf("Delete ends, and what differs elsewhere would be carried along: %s %+v", d.Action, d.Gate)
	}
	if d := at(time.Hour, unseen); d.Action != gating.ActionClose || d.Gate.Reason != v1alpha1.GateReasonExpired || d.Gate.DeleteAt != nil {
		t.Errorf("past both: %s %+v", d.Action, d.Gate)
	}
	if d := at(time.Minute, seen, set("l", "status", "atProvider", "size")); d.Action != gating.ActionOpen ||
		joined(d.Gate.Verbs) != remove || d.Gate.DeleteAt == nil {
		t.Errorf("the change is confirmed: %s %+v", d.Action, d.Gate)
	}
	if d := at(10*time.Minute, seen, set("l", "status", "atProvider", "size")); d.Action != gating.ActionClose || d.Gate.Reason != v1alpha1.GateReasonExpired {
		t.Errorf("the change is confirmed, Delete at its end: %s %+v", d.Action, d.Gate)
	}

	// The other way round: an approval of the deletion does not prolong a change.
	updating := with(instance(), policies1(observe, update), gateValue(openUpdate), synced, tampered)
	xr := parent.Sum(composite(), parent.RoleComposite)
	approved := with(composite(), annotate(v1alpha1.AnnotationKeyApprovePrefix+identity.DeletionID(xr, xr), "once"))
	d := gatingOf(updating, approved).Decide()
	if d.Action != gating.ActionOpen || d.Gate.At.UTC().Format(time.RFC3339) != "2026-01-02T11:30:00Z" || d.Gate.DeleteAt == nil ||
		!d.Gate.DeleteAt.Time.Equal(noon) {
		t.Fatalf("approved at noon: %s %+v", d.Action, d.Gate)
	}
	both := with(updating, gateValue(mask.FormatGate(d.Gate)), set(int64(4), "metadata", "generation"))
	g := gatingOf(both, approved)
	g.Now = noon.Add(31 * time.Minute)
	if d := g.Decide(); d.Action != gating.ActionOpen || joined(d.Gate.Verbs) != remove || d.Gate.Reason != v1alpha1.GateReasonExpired || d.Again != 0 {
		t.Errorf("the change ends alone: %s %+v", d.Action, d.Gate)
	}
}
