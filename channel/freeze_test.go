package channel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

// TestDecideFreeze covers KR-17-17: a freeze is decided about as it was shown.
func TestDecideFreeze(t *testing.T) {
	now := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	frozen := map[string]string{v1alpha1.AnnotationKeyFreeze: `{"user":"alice","message":"incident"}`}
	ended := map[string]string{v1alpha1.AnnotationKeyFreeze: `{"user":"alice","expiry":"2026-01-05T09:00:00Z"}`}
	on := held(nil).Spec.Parent
	for name, c := range map[string]struct {
		reason string
		has    map[string]string
		click  Click
		want   Refusal
	}{
		"Freeze":        {reason: "it is not frozen", click: Click{Action: ActionFreeze, Reason: "incident"}},
		"NoReason":      {reason: "a freeze has a reason", click: Click{Action: ActionFreeze, Reason: " "}, want: RefusedIncomplete},
		"AlreadyFrozen": {reason: "it is frozen", has: frozen, click: Click{Action: ActionFreeze, Reason: "r"}, want: RefusedNotOffered},
		"Ended":         {reason: "a freeze that has ended is none", has: ended, click: Click{Action: ActionFreeze, Reason: "r"}},
		"Unfreeze":      {reason: "the freeze of another user was shown", has: frozen, click: Click{Action: ActionUnfreeze}},
		"NotFrozen":     {reason: "there is nothing to end", click: Click{Action: ActionUnfreeze}, want: RefusedNotOffered},
		"Other":         {reason: "another freeze was shown", has: frozen, click: Click{Action: ActionUnfreeze, Shown: "0123456789abcdef"}, want: RefusedChanged},
		"Approve":       {reason: "it is about changes", click: Click{Action: ActionApprove}, want: RefusedNotOffered},
	} {
		t.Run(name, func(t *testing.T) {
			if c.click.At = now; c.click.Shown == "" {
				c.click.Shown = FreezeFingerprint(c.has)
			}
			do, refused := DecideFreeze(c.click, on, c.has, "hans")
			assert.Equal(t, c.want, refused, c.reason)
			if refused != "" {
				assert.Empty(t, do.Writes)
				return
			}
			require.Len(t, do.Writes, 1)
			next, err := do.Writes[0].Edit(c.has)
			require.NoError(t, err)
			if c.click.Action == ActionUnfreeze {
				assert.Nil(t, next)
			} else {
				assert.Contains(t, *next, `"user":"hans"`)
			}
			_, err = do.Writes[0].Edit(map[string]string{v1alpha1.AnnotationKeyFreeze: `{"user":"bert"}`})
			assert.ErrorIs(t, err, annotate.ErrOther, "it was frozen again before it is written")
		})
	}
}

// TestActionsOpened covers KR-17-02: what deletes or replaces is approved where it is shown and confirmed, but for a plan.
func TestActionsOpened(t *testing.T) {
	deletion := held(func(d *v1alpha1.Drift) { d.Spec.Operation = "DELETE" })
	plan := held(func(d *v1alpha1.Drift) { d.Spec.Difference[0].Path = "status.plan.pending" })
	assert.Equal(t, []Action{ActionApprove, ActionReject, ActionSnooze}, ActionsOpened(held(nil), Ruling{}))
	assert.Equal(t, []Action{ActionApprove, ActionReject, ActionSnooze}, ActionsOpened(deletion, Ruling{}))
	assert.Equal(t, []Action{ActionReject, ActionSnooze}, ActionsOpened(plan, Ruling{}))
	assert.NotContains(t, ActionsOpened(deletion, Ruling{Rejected: &v1alpha1.Rejection{}}), ActionApprove)
	for name, c := range map[string]struct {
		of     *v1alpha1.Drift
		opened bool
		want   Refusal
	}{"Deletion": {deletion, true, ""}, "NotOpened": {deletion, false, RefusedNotOffered}, "Plan": {plan, true, RefusedNotOffered}} {
		_, refused := Decide(Click{Action: ActionApprove, Shown: Fingerprint(c.of), Opened: c.opened}, c.of, nil, "hans")
		assert.Equal(t, c.want, refused, name)
	}
}
