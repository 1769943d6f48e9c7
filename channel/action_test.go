package channel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// held change of one field.
func held(edit func(*v1alpha1.Drift)) *v1alpha1.Drift {
	since := metav1.NewTime(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC))
	d := &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "7642947475a29290"}}
	d.Spec = v1alpha1.DriftSpec{
		ID: d.Name, Digest: d.Name + "aabbccdd", Relation: v1alpha1.RelationControllerChild, Operation: "UPDATE", SuggestedApproval: "kubectl annotate …",
		Parent:     v1alpha1.ObjectReference{APIVersion: "example.org/v1", Kind: "XDatabase", Namespace: "shop", Name: "orders", UID: "p1"},
		Child:      v1alpha1.ObjectReference{APIVersion: "cloud.example.org/v1", Kind: "Database", Namespace: "shop", Name: "orders-abc"},
		Difference: []v1alpha1.FieldDifference{{Path: "spec.forProvider.size", Verb: "Mutate", Old: "9", New: "50"}},
	}
	d.Status.Phase, d.Status.Since = v1alpha1.DriftDetected, &since
	if edit != nil {
		edit(d)
	}
	return d
}

// TestActionsOf covers KR-17-02: what deletes or replaces is not approved by a click, nor what is rejected or over.
func TestActionsOf(t *testing.T) {
	cases := map[string]struct {
		reason string
		edit   func(*v1alpha1.Drift)
		ruling Ruling
		want   []Action
	}{
		"Change": {reason: "one field", want: []Action{ActionApprove, ActionReject, ActionSnooze, ActionOpen}},
		"Voted": {reason: "one may withdraw, the other vote", edit: func(d *v1alpha1.Drift) { d.Status.Votes = []v1alpha1.Vote{{User: "anna"}} },
			want: []Action{ActionApprove, ActionReject, ActionWithdraw, ActionSnooze, ActionOpen}},
		"Rejected": {reason: "no approval has an effect", ruling: Ruling{Rejected: &v1alpha1.Rejection{Reason: "no"}},
			want: []Action{ActionWithdraw, ActionSnooze, ActionOpen}},
		"Deletion": {reason: "it has to be opened first", edit: func(d *v1alpha1.Drift) { d.Spec.Operation = "DELETE" },
			want: []Action{ActionReject, ActionSnooze, ActionOpen}},
		"OtherKind": {reason: "the function holds a creation in place of what exists", edit: func(d *v1alpha1.Drift) {
			d.Spec.Operation, d.Status.Holder = "CREATE", v1alpha1.HolderFunction
		}, want: []Action{ActionReject, ActionSnooze, ActionOpen}},
		"ExternalName": {reason: "it is for another external resource", edit: func(d *v1alpha1.Drift) {
			d.Spec.Difference[0].Path = `metadata.annotations["crossplane.io/external-name"]`
		}, want: []Action{ActionReject, ActionSnooze, ActionOpen}},
		"Plan": {reason: "what a plan does is not shown", edit: func(d *v1alpha1.Drift) { d.Spec.Difference[0].Path = "status.plan.pending" },
			want: []Action{ActionReject, ActionSnooze, ActionOpen}},
		"Unguarded": {reason: "an approval is not read there", edit: func(d *v1alpha1.Drift) { d.Spec.SuggestedApproval = "" },
			want: []Action{ActionSnooze, ActionOpen}},
		"Over": {reason: "nothing is left to decide", edit: func(d *v1alpha1.Drift) { d.Status.Phase = v1alpha1.DriftResolved }, want: []Action{ActionOpen}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, ActionsOf(held(tc.edit), tc.ruling), tc.reason)
		})
	}
}

// TestDecide covers KR-17-03: a click is about what was shown, and nothing else is decided.
func TestDecide(t *testing.T) {
	shown := Fingerprint(held(nil))
	later := metav1.NewTime(time.Date(2026, 1, 6, 9, 0, 0, 0, time.UTC))
	cases := map[string]struct {
		reason string
		click  Click
		now    *v1alpha1.Drift
		holder map[string]string
		// refused, else the values of the annotations that are written on holder.
		refused Refusal
		want    map[string]string
	}{
		"Approve": {reason: "exactly this difference, once", click: Click{Action: ActionApprove}, now: held(nil),
			want: map[string]string{"kausality.io/approve-7642947475a29290": "once"}},
		"ApproveAgain": {reason: "a second click changes nothing", click: Click{Action: ActionApprove}, now: held(nil),
			holder: map[string]string{"kausality.io/approve-7642947475a29290": "once"}, want: map[string]string{"kausality.io/approve-7642947475a29290": "once"}},
		"Gone": {reason: "there is none", click: Click{Action: ActionApprove}, refused: RefusedGone},
		"Resolved": {reason: "it is over", click: Click{Action: ActionApprove}, now: held(func(d *v1alpha1.Drift) { d.Status.Phase = v1alpha1.DriftResolved }),
			refused: RefusedGone},
		"Recurred": {reason: "another occurrence was not shown", click: Click{Action: ActionApprove}, now: held(func(d *v1alpha1.Drift) { d.Status.Since = &later }),
			refused: RefusedChanged},
		"OtherValue": {reason: "another difference under the same id was not shown", click: Click{Action: ActionApprove},
			now: held(func(d *v1alpha1.Drift) { d.Spec.Difference[0].New = "500" }), refused: RefusedChanged},
		"OtherDigest": {reason: "nor one whose values are cut", click: Click{Action: ActionReject, Reason: "no"},
			now: held(func(d *v1alpha1.Drift) { d.Spec.Digest += "00" }), refused: RefusedChanged},
		"Reject": {reason: "the object, for the reason", click: Click{Action: ActionReject, Reason: " not now "}, now: held(nil),
			want: map[string]string{"kausality.io/rejections": `[{"apiVersion":"cloud.example.org/v1","kind":"Database","name":"orders-abc","reason":"not now"}]`}},
		"RejectWithoutReason": {reason: "the reason is part of each refusal", click: Click{Action: ActionReject, Reason: " "}, now: held(nil),
			refused: RefusedIncomplete},
		"Snooze": {reason: "until the time", click: Click{Action: ActionSnooze, Until: later.Time}, now: held(nil),
			want: map[string]string{"kausality.io/snooze": `{"expiry":"2026-01-06T09:00:00Z","user":"hans@example.com"}`}},
		"SnoozeWithoutEnd": {reason: "it would be for ever", click: Click{Action: ActionSnooze}, now: held(nil), refused: RefusedIncomplete},
		"WithdrawRejection": {reason: "there is no vote of this user", click: Click{Action: ActionWithdraw}, now: held(nil),
			holder: map[string]string{"kausality.io/rejections": `[{"apiVersion":"cloud.example.org/v1","kind":"Database","name":"orders-abc","reason":"no"}]`},
			want:   map[string]string{"kausality.io/rejections": ""}},
		"Unknown": {reason: "it is no action", click: Click{Action: "destroy"}, now: held(nil), refused: RefusedNotOffered},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.click.Shown = shown
			got, refused := Decide(tc.click, tc.now, tc.holder, "hans@example.com")
			require.Equal(t, tc.refused, refused, tc.reason)
			have := map[string]string{}
			for _, w := range got.Writes {
				next, err := w.Edit(tc.holder)
				require.NoError(t, err)
				if have[w.Key] = ""; next != nil {
					have[w.Key] = *next
				}
			}
			if tc.want == nil {
				tc.want = map[string]string{}
			}
			assert.Equal(t, tc.want, have, tc.reason)
		})
	}
	deletion := held(func(d *v1alpha1.Drift) { d.Spec.Operation = "DELETE" })
	_, refused := Decide(Click{Action: ActionApprove, Shown: Fingerprint(deletion)}, deletion, nil, "hans@example.com")
	assert.Equal(t, RefusedNotOffered, refused, "a deletion is not approved by a click, whatever a client sends")
}

// TestSnoozeUntil covers KR-17-02: the times that are offered.
func TestSnoozeUntil(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		option    string
		now, want time.Time
	}{
		"Hour":         {"1h", time.Date(2026, 1, 7, 23, 30, 0, 0, berlin), time.Date(2026, 1, 8, 0, 30, 0, 0, berlin)},
		"Wednesday":    {"monday", time.Date(2026, 1, 7, 23, 30, 0, 0, berlin), time.Date(2026, 1, 12, 8, 0, 0, 0, berlin)},
		"MondayEarly":  {"monday", time.Date(2026, 1, 5, 7, 0, 0, 0, berlin), time.Date(2026, 1, 5, 8, 0, 0, 0, berlin)},
		"MondayLate":   {"monday", time.Date(2026, 1, 5, 8, 0, 0, 0, berlin), time.Date(2026, 1, 12, 8, 0, 0, 0, berlin)},
		"ClockChanges": {"monday", time.Date(2026, 3, 28, 12, 0, 0, 0, berlin), time.Date(2026, 3, 30, 8, 0, 0, 0, berlin)},
	} {
		t.Run(name, func(t *testing.T) {
			have, err := SnoozeUntil(tc.option, tc.now)
			require.NoError(t, err)
			assert.True(t, tc.want.Equal(have), "%s, not %s", have, tc.want)
		})
	}
	_, err = SnoozeUntil("for ever", time.Now())
	assert.Error(t, err)
}
