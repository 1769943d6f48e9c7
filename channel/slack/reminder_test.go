package slack

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
)

// reminders that were posted.
func (b *bench) reminders() (out []*slackfake.Message) {
	for _, m := range b.toAll() {
		if m.Broadcast {
			out = append(out, m)
		}
	}
	return out
}

// heldNow is held, since the beginning of the test.
func (b *bench) heldNow(n int) *v1alpha1.Drift {
	d := held(n)
	d.Status.Since = &metav1.Time{Time: b.now().Truncate(time.Second)}
	return d
}

// newReminding bench with two changes of one cause, of which reminders begin after three days.
func newReminding(t *testing.T) *bench {
	b := newBench(t, interceptor.Funcs{})
	b.config.Reminders = &Reminders{After: metav1.Duration{Duration: 72 * time.Hour}}
	require.NoError(t, b.config.Check())
	for n := range 2 {
		require.NoError(t, b.client.Create(t.Context(), b.heldNow(n)))
	}
	b.rounds(3)
	return b
}

// TestReminders covers KR-17-27: what is held for long is a reminder in the thread of its message, once a day and cause.
func TestReminders(t *testing.T) {
	b := newReminding(t)
	main := b.toAll()[0]
	b.later(71 * time.Hour)
	require.NoError(t, b.client.Create(t.Context(), b.heldNow(2))) // has a message of its own
	b.rounds(3)
	require.Empty(t, b.reminders(), "not yet")
	b.later(2 * time.Hour)
	b.rounds(3)
	require.Len(t, b.reminders(), 1, "of both messages of the cause")
	first := b.reminders()[0]
	assert.Equal(t, main.TS, first.ThreadTS)
	assert.Contains(t, first.Blocks, "Still held after 3 days")
	assert.Contains(t, first.Blocks, "2 changes of 2 objects")
	assert.Contains(t, first.Blocks, "kubectl kausality approve")
	b.start() // another leader
	b.later(23 * time.Hour)
	b.rounds(3)
	require.Len(t, b.reminders(), 1, "once a day")
	b.later(2 * time.Hour)
	b.rounds(3)
	require.Len(t, b.reminders(), 2)
	for n := range 3 {
		b.change(held(n), func(d *v1alpha1.Drift) { d.Status.Phase, d.Status.Resolution = v1alpha1.DriftResolved, "it landed" })
	}
	b.later(48 * time.Hour)
	b.rounds(3)
	assert.Len(t, b.reminders(), 2, "nothing is held any more")
}

// TestReminderAfterTheMessage covers KR-17-27: what is held for long when it is first shown, as after an installation, has its reminder a day later.
func TestReminderAfterTheMessage(t *testing.T) {
	b := newBench(t, interceptor.Funcs{}, held(1))
	b.config.Reminders = &Reminders{After: metav1.Duration{Duration: time.Hour}}
	b.rounds(3)
	assert.Empty(t, b.reminders())
	b.later(25 * time.Hour)
	b.rounds(3)
	assert.Len(t, b.reminders(), 1)
}

// TestNoReminders covers KR-17-27: there are none unless they are chosen, and none of what is decided.
func TestNoReminders(t *testing.T) {
	for name, tc := range map[string]struct {
		off  bool
		edit func(*v1alpha1.DriftStatus)
	}{
		"Off": {off: true, edit: func(*v1alpha1.DriftStatus) {}},
		"Rejected": {edit: func(s *v1alpha1.DriftStatus) {
			s.Ruling = &v1alpha1.DriftRuling{Rejected: &v1alpha1.Rejection{Reason: "not now"}}
		}},
		"Snoozed": {edit: func(s *v1alpha1.DriftStatus) {
			s.Ruling = &v1alpha1.DriftRuling{Snooze: &v1alpha1.Snooze{Expiry: metav1.NewTime(morning)}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newReminding(t)
			if tc.off {
				b.config.Reminders = nil
			}
			for n := range 2 {
				b.change(held(n), func(d *v1alpha1.Drift) { tc.edit(&d.Status) })
			}
			b.later(100 * time.Hour)
			b.rounds(3)
			assert.Empty(t, b.reminders())
		})
	}
}

// TestRemindersOfAFailingSlack covers KR-17-27: a reminder that Slack does not accept is posted later, once.
func TestRemindersOfAFailingSlack(t *testing.T) {
	b := newReminding(t)
	b.later(73 * time.Hour)
	require.NoError(t, b.slack.Fail(slackfake.Failure{Methods: []string{"chat.postMessage"}, Code: "internal_error", Times: 1}))
	b.rounds(1)
	require.Empty(t, b.reminders())
	b.later(time.Minute)
	b.rounds(3)
	assert.Len(t, b.reminders(), 1)
}

// TestReminderOfADeletedMessage covers KR-17-27: where the message was deleted in Slack, nothing is delayed for its reminder.
func TestReminderOfADeletedMessage(t *testing.T) {
	b := newReminding(t)
	b.later(73 * time.Hour)
	require.NoError(t, b.slack.Fail(slackfake.Failure{Methods: []string{"chat.postMessage"}, Code: "thread_not_found", Times: 1}))
	b.rounds(2)
	assert.Empty(t, b.reminders())
	assert.Equal(t, metav1.ConditionTrue, b.ready().Status)
	b.later(25 * time.Hour)
	b.rounds(2)
	assert.Len(t, b.reminders(), 1)
}

// TestReminderIsSafe covers KR-17-04.
func TestReminderIsSafe(t *testing.T) {
	d := held(1)
	d.Spec.Causes = []v1alpha1.HopCause{{Kind: v1alpha1.CauseUser, Name: strings.Repeat(hostile, 100), Author: hostile}}
	d.Status.Lacks = strings.Repeat(hostile, 1000)
	m := renderer{config: &Config{}, zone: time.UTC}.reminder(&overdue{drifts: []v1alpha1.Drift{*d}}, morning.Add(30*time.Hour))
	assert.NotContains(t, m.text, "<!channel>")
	assert.LessOrEqual(t, len(m.text), 3*maxHeader)
	raw := m.digest()
	assert.NotEmpty(t, raw)
	assert.Equal(t, "30 hours", ago(30*time.Hour))
	assert.Equal(t, "2 days", ago(60*time.Hour))
}
