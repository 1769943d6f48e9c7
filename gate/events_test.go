package gate

import (
	"strings"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/admission/gating"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
)

// told are the events that f makes, as TYPE REASON MESSAGE.
func told(f func(*Controller)) []string {
	r := events.NewFakeRecorder(10)
	c := &Controller{Events: r, Deadline: time.Hour}
	c.leading.Store(true)
	f(c)
	close(r.Events)
	var out []string
	for e := range r.Events {
		out = append(out, e)
	}
	return out
}

func gated(g v1alpha1.Gate) *cluster.Object {
	return objectWith(map[string]string{v1alpha1.AnnotationKeyGate: mask.FormatGate(g)})
}

// Each transition has one event, with what is to know about it.
func TestTell(t *testing.T) {
	gate := func(reason string, verbs ...v1alpha1.Verb) v1alpha1.Gate {
		return v1alpha1.Gate{Reason: reason, Verbs: verbs, Digest: "id1", At: metav1.Now()}
	}
	cases := map[string]struct {
		d    gating.Decision
		want string
	}{
		"Install":  {gating.Decision{Action: gating.ActionInstall, Gate: gate("Installed")}, "Normal GateInstalled The gate is closed"},
		"Open":     {gating.Decision{Action: gating.ActionOpen, Gate: gate(v1alpha1.GateReasonApproved, v1alpha1.VerbUpdate)}, "Normal GateOpened The gate is open for [Update], by approval (difference id1)"},
		"Narrow":   {gating.Decision{Action: gating.ActionOpen, Gate: gate(v1alpha1.GateReasonConfirmed, v1alpha1.VerbDelete)}, "Normal GateNarrowed The gate is open for [Delete] alone now (Confirmed)"},
		"Confirm":  {gating.Decision{Action: gating.ActionClose, Gate: gate(v1alpha1.GateReasonConfirmed)}, "Normal GateClosed The gate is closed (Confirmed)"},
		"Expire":   {gating.Decision{Action: gating.ActionClose, Gate: gate(v1alpha1.GateReasonExpired)}, "Warning GateClosed The gate is closed (ExpiredUnconfirmed)"},
		"Restored": {gating.Decision{Action: gating.ActionRestore}, "Normal GateRemoved The author's managementPolicies"},
		"Refused":  {gating.Decision{Action: gating.ActionClose, Gate: gate(v1alpha1.GateReasonRefused), Policies: []string{"Observe"}}, "Normal GateAdjusted The provider's runtime does not know"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := told(func(c *Controller) { c.tell(objectWith(nil), tc.d) })
			if len(got) != 1 || !strings.HasPrefix(got[0], tc.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// What the webhook did is told when it is seen, and once.
func TestAdmitted(t *testing.T) {
	changed := v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}, Paths: []string{"spec.forProvider.size"}, Reason: v1alpha1.GateReasonChanged}
	held := v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonPending}
	approved := v1alpha1.Gate{State: v1alpha1.GateOpen, Reason: v1alpha1.GateReasonApproved}
	for name, tc := range map[string]struct {
		old, new *cluster.Object
		want     string
	}{
		"Changed":  {gated(held), gated(changed), "Normal GateOpened The gate is open for [Update], by an accepted change of spec.forProvider.size"},
		"Held":     {gated(changed), gated(held), "Warning GateHeld"},
		"Created":  {nil, gated(v1alpha1.Gate{State: v1alpha1.GateOpen, Reason: v1alpha1.GateReasonCreated}), "Normal GateOpened"},
		"Closed":   {nil, gated(v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonCreated}), ""},
		"Ours":     {gated(held), gated(approved), ""},
		"Same":     {gated(changed), gated(changed), ""},
		"Gone":     {gated(changed), nil, ""},
		"Ungated":  {gated(changed), objectWith(nil), ""},
		"Deleting": {gated(held), &cluster.Object{State: &parent.State{DeletedAt: &time.Time{}, Annotations: gated(changed).Annotations}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(told(func(c *Controller) { c.admitted(tc.old, tc.new) }), "\n")
			if !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// An orphan is told of with its external name and by whose word; what is deleted
// with its external resource, or waits, is none.
func TestOrphaned(t *testing.T) {
	mr := func(s parent.State) *cluster.Object { return &cluster.Object{State: &s, ExternalName: "db-1"} }
	key := v1alpha1.AnnotationKeyManagementPolicies
	for name, tc := range map[string]struct {
		mr   *cluster.Object
		want string
	}{
		"Asked":    {mr(parent.State{ManagementPolicies: []string{"Observe"}, Annotations: map[string]string{key: `["*"]`, v1alpha1.AnnotationKeyDeletion: "orphan"}}), `Warning ExternalOrphaned The external resource "db-1" is left behind, as annotation kausality.io/deletion`},
		"Author":   {mr(parent.State{ManagementPolicies: []string{"Observe"}}), "Warning ExternalOrphaned"},
		"Legacy":   {mr(parent.State{ManagementPolicies: []string{"*"}, DeletionPolicy: "Orphan"}), "Warning ExternalOrphaned"},
		"Nobody":   {mr(parent.State{ManagementPolicies: []string{"Observe"}, Annotations: map[string]string{key: `["*"]`}}), "Warning ExternalOrphaned"},
		"Deleted":  {mr(parent.State{ManagementPolicies: []string{"Observe", "Delete"}}), ""},
		"Starred":  {mr(parent.State{ManagementPolicies: []string{"*"}}), ""},
		"Waits":    {mr(parent.State{ManagementPolicies: []string{}}), ""},
		"Explicit": {mr(parent.State{ManagementPolicies: []string{"Observe", "Delete"}, DeletionPolicy: "Orphan"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			for what, got := range map[string]string{
				"gone at once": strings.Join(told(func(c *Controller) { c.orphaned(tc.mr, nil) }), "\n"),
				"terminating": strings.Join(told(func(c *Controller) {
					now := *tc.mr.State
					now.DeletedAt = &time.Time{}
					c.orphaned(tc.mr, &cluster.Object{State: &now, ExternalName: "db-1"})
				}), "\n"),
			} {
				if !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
					t.Errorf("%s: got %q", what, got)
				}
			}
			if got := told(func(c *Controller) { c.orphaned(tc.mr, tc.mr) }); len(got) > 0 {
				t.Errorf("not deleted: got %q", got)
			}
		})
	}
}
