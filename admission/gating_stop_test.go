package admission

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A freeze and a rejection go before any approval: of external drift, of the
// deletion of one MR, of all below an XR.
func TestDecideStopped(t *testing.T) {
	drifted := with(instance(), synced, ready, tampered)
	mr, xr := parent.Sum(drifted, parent.RoleManaged), parent.Sum(composite(), parent.RoleComposite)
	drift := decideGate(t, gatingOf(drifted, composite())).Drift.ID
	freeze := annotate(v1alpha1.AnnotationKeyFreeze, `{"user":"hans","message":"incident"}`)
	reject := func(what string) mod {
		return annotate(v1alpha1.AnnotationKeyRejections, `[{"kind":"Instance",`+what+`,"reason":"not before the audit"}]`)
	}
	cases := map[string]struct {
		reason string
		stop   mod
		onMR   mod
		want   GateAction
		why    string
	}{
		"Nothing":          {"approved, it opens", nil, nil, GateOpenFor, ""},
		"Frozen":           {"the XR is frozen", freeze, nil, GateNothing, "frozen by hans (incident)"},
		"FrozenUnreadable": {"what does not parse counts as frozen", annotate(v1alpha1.AnnotationKeyFreeze, `{`), nil, GateNothing, "counts as frozen"},
		"NotFrozen":        {"false is not frozen", annotate(v1alpha1.AnnotationKeyFreeze, "false"), nil, GateOpenFor, ""},
		"FrozenMR":         {"a freeze on the MR itself", nil, freeze, GateNothing, "frozen by hans"},
		"FrozenDeleting":   {"what is being deleted is not frozen: its cleanup must finish", func(o *unstructured.Unstructured) { freeze(o); deleting(o) }, nil, GateOpenFor, ""},
		"Rejected":         {"a rejection by name", reject(`"name":"inst"`), nil, GateNothing, "not before the audit"},
		"RejectedResource": {"by the name in the Composition", reject(`"resource":"instance"`), nil, GateNothing, "not before the audit"},
		"RejectedOther":    {"of another MR", reject(`"name":"other"`), nil, GateOpenFor, ""},
		"RejectedEarlier":  {"for earlier intents only", reject(`"name":"inst","generation":4`), nil, GateOpenFor, ""},
	}
	for what, id := range map[string]string{"Drift": drift, "Deletion": DeletionID(xr, mr), "Whole": DeletionID(xr, xr)} {
		for name, tc := range cases {
			t.Run(what+"/"+name, func(t *testing.T) {
				above, below := with(composite(), annotate(v1alpha1.AnnotationKeyApprovePrefix+id, "once")), drifted
				if tc.stop != nil {
					above = with(above, tc.stop)
				}
				if tc.onMR != nil {
					below = with(below, tc.onMR)
				}
				d := decideGate(t, gatingOf(below, above))
				if d.Action != tc.want {
					t.Fatalf("%s: got %q (%s)", tc.reason, d.Action, d.Why)
				}
				if d.Action == GateNothing && d.Drift == nil {
					t.Errorf("%s: the drift is still reported", tc.reason)
				}
				if what == "Drift" && !strings.Contains(d.Why, tc.why) {
					t.Errorf("%s: it says %q", tc.reason, d.Why)
				}
			})
		}
	}
}

// A deletion that is approved and stopped is refused for what stops it: no gate
// is "being opened" for it.
func TestDeleteStopped(t *testing.T) {
	for name, tc := range map[string]struct {
		stop mod
		want Reason
	}{
		"Frozen":   {annotate(v1alpha1.AnnotationKeyFreeze, "true"), ReasonFrozen},
		"Rejected": {annotate(v1alpha1.AnnotationKeyRejections, `[{"kind":"*","name":"*","reason":"audit"}]`), ReasonRejected},
		"Neither":  {annotate(v1alpha1.AnnotationKeyFreeze, "false"), ReasonExternalDeletion},
	} {
		t.Run(name, func(t *testing.T) {
			s := parent.Sum(composite(), parent.RoleComposite)
			whole := with(composite(), annotate(v1alpha1.AnnotationKeyApprovePrefix+DeletionID(s, s), "once"), tc.stop)
			w := setting{}.world()
			w.managed = []*parent.State{parent.Sum(instance(), parent.RoleManaged)}
			if d := decide(t, w, enforced(), request(Delete, whole).by(alice, "")); d.Allowed || d.Reason != tc.want {
				t.Errorf("the XR: %s: %s", d.Reason, d.Message)
			}
			one := setting{xr: []mod{annotate(v1alpha1.AnnotationKeyApprovePrefix+DeletionID(s, parent.Sum(instance(), parent.RoleManaged)), "once"), tc.stop}}
			if d := decide(t, one.world(), enforced(), request(Delete, instance()).by(alice, "")); d.Allowed || d.Reason != tc.want {
				t.Errorf("the MR: %s: %s", d.Reason, d.Message)
			}
		})
	}
}

// Delete has a deadline of its own: an accepted change does not prolong it, and
// it does not shorten that of the change.
func TestDeleteDeadline(t *testing.T) {
	forDelete := with(instance(), policies1(observe, remove), gateValue(`{"state":"open","verbs":["Delete"],"generation":3,"at":"2026-01-02T11:10:00Z"}`))
	changed := apply(request(Update, forDelete, resize("l")).Object, decide(t, setting{xr: []mod{unsettled}}.world(), enforced(), request(Update, forDelete, resize("l"))))
	gate := mask.ParseGate(changed.GetAnnotations())
	if gate.DeleteAt == nil || gate.DeleteAt.UTC().Format(time.RFC3339) != "2026-01-02T11:10:00Z" || !gate.At.Time.Equal(noon) {
		t.Fatalf("changed at noon: %+v", gate)
	}
	at := func(d time.Duration, mods ...mod) GateDecision {
		g := gatingOf(with(changed, append([]mod{set(int64(4), "metadata", "generation")}, mods...)...), composite())
		g.Now = noon.Add(d)
		return decideGate(t, g)
	}
	unseen, seen := condition("Synced", "False", "R", 4), condition("Synced", "True", "R", 4)
	if d := at(9*time.Minute, unseen); d.Action != GateNothing || d.Again != time.Minute {
		t.Errorf("before both: %s, again in %s", d.Action, d.Again)
	}
	if d := at(10*time.Minute, unseen); d.Action != GateOpenFor || joined(d.Gate.Verbs) != update || d.Gate.DeleteAt != nil || !d.Gate.At.Time.Equal(noon) ||
		d.Gate.Reason != GateReasonExpired || strings.Join(d.Policies, ",") != "Observe,Update" || len(d.Gate.Paths) == 0 {
		t.Errorf("Delete ends alone: %s %+v %v", d.Action, d.Gate, d.Policies)
	}
	if d := at(10*time.Minute, unseen, set("us", "status", "atProvider", "region")); d.Action != GateClose || d.Gate.Reason != GateReasonPending {
		t.Errorf("Delete ends, and what differs elsewhere would be carried along: %s %+v", d.Action, d.Gate)
	}
	if d := at(time.Hour, unseen); d.Action != GateClose || d.Gate.Reason != GateReasonExpired || d.Gate.DeleteAt != nil {
		t.Errorf("past both: %s %+v", d.Action, d.Gate)
	}
	if d := at(time.Minute, seen, set("l", "status", "atProvider", "size")); d.Action != GateOpenFor || joined(d.Gate.Verbs) != remove || d.Gate.DeleteAt == nil {
		t.Errorf("the change is confirmed: %s %+v", d.Action, d.Gate)
	}
	if d := at(10*time.Minute, seen, set("l", "status", "atProvider", "size")); d.Action != GateClose || d.Gate.Reason != GateReasonExpired {
		t.Errorf("the change is confirmed, Delete at its end: %s %+v", d.Action, d.Gate)
	}

	// The other way round: an approval of the deletion does not prolong a change.
	updating := with(instance(), policies1(observe, update), opened(openUpdate), synced, tampered)
	xr := parent.Sum(composite(), parent.RoleComposite)
	approved := with(composite(), annotate(v1alpha1.AnnotationKeyApprovePrefix+DeletionID(xr, xr), "once"))
	d := decideGate(t, gatingOf(updating, approved))
	if d.Action != GateOpenFor || d.Gate.At.UTC().Format(time.RFC3339) != "2026-01-02T11:30:00Z" || d.Gate.DeleteAt == nil || !d.Gate.DeleteAt.Time.Equal(noon) {
		t.Fatalf("approved at noon: %s %+v", d.Action, d.Gate)
	}
	both := with(updating, gateValue(mask.FormatGate(d.Gate)), set(int64(4), "metadata", "generation"))
	g := gatingOf(both, approved)
	g.Now = noon.Add(31 * time.Minute)
	if d := decideGate(t, g); d.Action != GateOpenFor || joined(d.Gate.Verbs) != remove || d.Gate.Reason != GateReasonExpired || d.Again != 0 {
		t.Errorf("the change ends alone: %s %+v", d.Action, d.Gate)
	}
}
