package view_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/view"
	"github.com/kausality-io/function-kausality/channel/view/viewtest"
)

// TestWrites covers KR-17-17: what a decision writes is shown with its value before it is written, and is what is written then.
func TestWrites(t *testing.T) {
	s, o, _ := viewtest.New(t, viewtest.Held(nil))
	v, err := view.New(o)
	require.NoError(t, err)
	const on = " of Shop team/orders"
	for _, tc := range []struct {
		name    string
		action  channel.Action
		form    view.Form
		key     string
		shown   string
		written string
	}{
		{name: "Snooze", action: channel.ActionSnooze, form: view.Form{Until: "1h"}, key: "kausality.io/snooze",
			shown: `{"expiry":"2026-01-05T11:00:00Z","user":"hans"}`, written: `{"expiry":"2026-01-05T11:00:00Z","user":"hans"}`},
		{name: "Approve", action: channel.ActionApprove, key: "kausality.io/approve-" + viewtest.HeldID, shown: "once", written: "once"},
		{name: "Withdraw", action: channel.ActionWithdraw, key: "kausality.io/approve-" + viewtest.HeldID, shown: "removed"},
		{name: "Reject", action: channel.ActionReject, form: view.Form{Reason: "audit"}, key: "kausality.io/rejections",
			shown: `"reason":"…"`, written: `"reason":"audit"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := s.Annotations(viewtest.ShopPath)[tc.key]
			c, err := v.Confirm(t.Context(), "team", viewtest.HeldID, tc.action)
			require.NoError(t, err)
			require.Len(t, c.Writes, 1)
			assert.True(t, strings.HasPrefix(c.Writes[0], "annotation "+tc.key+on), c.Writes)
			assert.Contains(t, c.Writes[0], tc.shown)
			assert.Equal(t, before, s.Annotations(viewtest.ShopPath)[tc.key], "nothing is written before it is confirmed")
			tc.form.Action, tc.form.Shown = tc.action, c.Shown
			done, again, err := v.Decide(t.Context(), "team", viewtest.HeldID, tc.form)
			require.NoError(t, err)
			require.Nil(t, again)
			assert.NotEmpty(t, done)
			if tc.written == "" {
				assert.NotContains(t, s.Annotations(viewtest.ShopPath), tc.key)
				return
			}
			assert.Contains(t, s.Annotations(viewtest.ShopPath)[tc.key], tc.written)
		})
	}
}

// TestEarly covers KR-17-21: what waits is shown as soon as it is listed, before it is known what was decided about it, and once.
func TestEarly(t *testing.T) {
	s, o, _ := viewtest.New(t, viewtest.Held(nil))
	var early []*view.Snapshot
	parents := 0
	s.Forbidden = func(_, path string) bool { // of each request that is answered
		if path == viewtest.ShopPath {
			parents++
		}
		return false
	}
	o.Early = func(snap *view.Snapshot) {
		assert.Zero(t, parents, "no parent has been read")
		early = append(early, snap)
	}
	v, err := view.New(o)
	require.NoError(t, err)
	full, err := v.Pending(t.Context())
	require.NoError(t, err)
	require.Len(t, early, 1)
	assert.Positive(t, parents)
	assert.Equal(t, full.Changes(), early[0].Changes())
	assert.Equal(t, []string{"Whether changes are rejected, frozen or snoozed is being read."}, early[0].Notes())
	assert.Empty(t, full.Notes())
}
