package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
)

// approveKey of a Drift.
func approveKey(d *v1alpha1.Drift) string { return v1alpha1.AnnotationKeyApprovePrefix + d.Name }

// TestApprove covers KR-17-03, KR-17-08 and KR-17-09: a click is stored, acknowledged and written as its user; a second one changes nothing, and
// the message shows who decided, and later that it is over.
func TestApprove(t *testing.T) {
	d := held(1)
	b := newBench(t, interceptor.Funcs{}, d)
	b.rounds(1)
	b.connect()
	m := b.message(d)
	require.NotNil(t, m)
	_, buttons := m.Block()
	assert.Equal(t, []string{"kausality:approve", "kausality:reject", "kausality:snooze", "kausality:open"}, buttons)
	for range 2 { // a double click
		assert.Empty(t, b.click(hans, d, channel.ActionApprove, "").Error)
	}
	assert.Len(t, b.stored(holdsClick), 2, "stored before they are acknowledged")
	assert.Empty(t, b.parents.writes())
	b.rounds(2)
	assert.Equal(t, []string{"hans@example.com " + approveKey(d)}, b.parents.writes())
	assert.Equal(t, "once", b.parents.value(d.Spec.Parent.Name, approveKey(d)))
	assert.Empty(t, b.stored(holdsClick))
	require.Len(t, b.answers(hans), 2)
	assert.Contains(t, b.answers(hans)[0], "approved by hans@example.com. Written.")
	assert.Contains(t, b.message(d).Blocks, "approved by hans@example.com", "the message shows it")
	b.change(d, func(d *v1alpha1.Drift) {
		d.Status.Phase, d.Status.Resolution = v1alpha1.DriftResolved, "the approved change landed"
	})
	b.rounds(1)
	assert.Nil(t, b.message(d), "nothing is left to decide")
	last := b.state().Messages[0]
	assert.Contains(t, last.Blocks, "Resolved: the approved change landed")
	assert.Contains(t, last.Blocks, "approved by hans@example.com")
	assert.Equal(t, v1alpha1.DriftResolved, b.delivery(d).Phase)
}

// TestNotApproved covers KR-17-03: what is over, or another one than was shown, is not approved, and what it is now is shown.
func TestNotApproved(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.Drift)
		answer string
	}{
		"Resolved": {func(d *v1alpha1.Drift) {
			d.Status.Phase, d.Status.Resolution = v1alpha1.DriftResolved, "the child was deleted"
		}, "it is over already. the child was deleted"},
		"Recurred": {func(d *v1alpha1.Drift) { d.Status.Since = &metav1.Time{Time: morning.Add(time.Hour)} }, "it has changed since it was shown to you"},
		"Value":    {func(d *v1alpha1.Drift) { d.Spec.Difference[0].New = "500" }, "spec.forProvider.size: 9 → 500"},
		"Deletion": {func(d *v1alpha1.Drift) { d.Spec.Operation = "DELETE" }, "it has changed since it was shown to you"},
	} {
		t.Run(name, func(t *testing.T) {
			d := held(1)
			b := newBench(t, interceptor.Funcs{}, d)
			b.rounds(1)
			b.connect()
			m := b.message(d)
			b.change(d, tc.change)
			assert.Empty(t, b.clickOn(hans, slackfake.Team, m, channel.ActionApprove, "").Error)
			b.rounds(2)
			assert.Empty(t, b.parents.writes())
			require.Len(t, b.answers(hans), 1)
			assert.Contains(t, b.answers(hans)[0], tc.answer)
			if name == "Value" {
				assert.Contains(t, b.message(d).Blocks, "9 → 500", "the message shows it, too")
			}
		})
	}
	t.Run("Gone", func(t *testing.T) {
		d := held(1)
		b := newBench(t, interceptor.Funcs{}, d)
		b.rounds(1)
		b.connect()
		m := b.message(d)
		require.NoError(t, b.client.Delete(t.Context(), d.DeepCopy()))
		b.clickOn(hans, slackfake.Team, m, channel.ActionApprove, "")
		b.rounds(2)
		assert.Empty(t, b.parents.writes())
		assert.Contains(t, b.answers(hans)[0], "it is over already")
		assert.Nil(t, b.message(d))
	})
}

// TestStrangers covers KR-17-05 and KR-17-09: who is no user, or lacks the right, is answered so, and nothing is written.
func TestStrangers(t *testing.T) {
	email := func(b *bench) { b.config.Users, b.config.Email = nil, &Email{Domains: []string{"example.com"}} }
	for name, tc := range map[string]struct {
		prepare func(*bench)
		user    map[string]any
		team    string
		answer  string
		written string
	}{
		"Unknown": {user: map[string]any{"id": "U0OTHER0"}, answer: "U0OTHER0 is not in the configuration"},
		"NoFallThrough": {prepare: func(b *bench) { b.config.Email = &Email{Domains: []string{"example.com"}} },
			user: workspaceMember("U0OTHER0", nil), answer: "is not in the configuration"},
		"OtherWorkspace": {user: map[string]any{"id": hans}, team: "T0OTHER0", answer: "not of the workspace"},
		"WithoutRights": {prepare: func(b *bench) { b.parents.forbidden = map[string]bool{"eve@example.com": true} }, user: map[string]any{"id": eve},
			answer: "eve@example.com may not do that. It takes the verbs get and patch"},
		"Member": {prepare: email, user: workspaceMember("U0OTHER0", nil), written: "otto@example.com"},
		"Guest":  {prepare: email, user: workspaceMember("U0OTHER0", map[string]any{"is_restricted": true}), answer: "Guests and members of other workspaces"},
		"SingleGuest": {prepare: email, user: workspaceMember("U0OTHER0", map[string]any{"is_ultra_restricted": true}),
			answer: "Guests and members of other workspaces"},
		"Connected":   {prepare: email, user: workspaceMember("U0OTHER0", map[string]any{"team_id": "T0OTHER0"}), answer: "Guests and members of other workspaces"},
		"Bot":         {prepare: email, user: workspaceMember("U0OTHER0", map[string]any{"is_bot": true}), answer: "A bot does not decide"},
		"Deactivated": {prepare: email, user: workspaceMember("U0OTHER0", map[string]any{"deleted": true}), answer: "deactivated"},
		"Unconfirmed": {prepare: email, user: workspaceMember("U0OTHER0", map[string]any{"is_email_confirmed": false}), answer: "not confirmed"},
		"OtherDomain": {prepare: email, user: workspaceMember("U0OTHER0", map[string]any{"profile": map[string]any{"email": "otto@example.com.evil.org"}}),
			answer: "not of a domain"},
		"SystemPrefix": {prepare: func(b *bench) { email(b); b.config.Email.Prefix = "system:" },
			user: workspaceMember("U0OTHER0", nil), answer: "never impersonated"},
	} {
		t.Run(name, func(t *testing.T) {
			d := held(1)
			b := newBench(t, interceptor.Funcs{}, d)
			if tc.prepare != nil {
				tc.prepare(b)
			}
			require.NoError(t, b.slack.AddUser(tc.user))
			b.rounds(1)
			b.connect()
			user, team := fmt.Sprint(tc.user["id"]), tc.team
			if team == "" {
				team = slackfake.Team
			}
			assert.Empty(t, b.clickOn(user, team, b.message(d), channel.ActionApprove, "").Error)
			b.rounds(2)
			if tc.written != "" {
				assert.Equal(t, []string{tc.written + " " + approveKey(d)}, b.parents.writes())
				return
			}
			assert.Empty(t, b.parents.writes())
			require.Len(t, b.answers(user), 1)
			assert.Contains(t, b.answers(user)[0], tc.answer)
			assert.Empty(t, b.stored(holdsClick))
		})
	}
}

// TestIsImpersonation covers KR-17-09: that the process may not act as a user is another answer than that the user may not do it.
func TestIsImpersonation(t *testing.T) {
	const process = `User "system:serviceaccount:kausality-system:kausality-slack" cannot `
	for name, tc := range map[string]struct {
		message string
		want    bool
	}{
		"User":        {process + `impersonate resource "users" in API group "" at the cluster scope`, true},
		"Mode":        {process + `impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope`, true},
		"On":          {process + `impersonate-on:user-info:patch resource "apps" in API group "example.org" in the namespace "shop"`, true},
		"OnPath":      {process + `impersonate-on:user-info:get path "/api"`, true},
		"UserMayNot":  {`User "eve@example.com" cannot patch resource "apps" in API group "example.org" in the namespace "shop"`, false},
		"SimilarVerb": {`User "eve@example.com" cannot impersonates resource "apps" in API group "example.org"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := kerrors.NewForbidden(schema.GroupResource{Resource: "apps"}, "app", errors.New(tc.message))
			assert.Equal(t, tc.want, isImpersonation(fmt.Errorf("cannot read: %w", err)))
			assert.False(t, isImpersonation(errors.New(tc.message)), "no error of the API server")
		})
	}
}

// workspaceMember as users.info shows it.
func workspaceMember(id string, edit map[string]any) map[string]any {
	u := map[string]any{"id": id, "team_id": slackfake.Team, "is_email_confirmed": true, "profile": map[string]any{"email": "otto@example.com"}}
	for k, v := range edit {
		u[k] = v
	}
	return u
}

// TestRejectWithdrawSnooze covers KR-17-02: a rejection with its reason, its withdrawal, and a snooze.
func TestRejectWithdrawSnooze(t *testing.T) {
	d := held(1)
	b := newBench(t, interceptor.Funcs{}, d)
	b.rounds(1)
	b.connect()
	assert.Empty(t, b.click(hans, d, channel.ActionReject, "").Error)
	require.Len(t, b.state().Views, 1)
	view := b.state().Views[0]
	assert.Empty(t, b.stored(holdsClick), "nothing is decided before the reason")
	ack, err := b.slack.Submit(slackfake.Submission{User: hans, Team: slackfake.Team, View: view.ID, Reason: "  "})
	require.NoError(t, err)
	assert.Contains(t, string(ack.Payload), "A reason is required")
	ack, err = b.slack.Submit(slackfake.Submission{User: hans, Team: slackfake.Team, View: view.ID, Reason: "not now <!channel>"})
	require.NoError(t, err)
	assert.Empty(t, ack.Error)
	b.rounds(2)
	assert.Contains(t, b.parents.value(d.Spec.Parent.Name, v1alpha1.AnnotationKeyRejections), "not now ")
	_, buttons := b.message(d).Block()
	assert.Equal(t, []string{"kausality:withdraw", "kausality:snooze", "kausality:open"}, buttons)
	assert.Contains(t, b.message(d).Blocks, "rejected by hans@example.com")

	assert.Empty(t, b.click(anna, d, channel.ActionWithdraw, "").Error)
	b.rounds(2)
	assert.Empty(t, b.parents.value(d.Spec.Parent.Name, v1alpha1.AnnotationKeyRejections))
	_, buttons = b.message(d).Block()
	assert.Contains(t, buttons, "kausality:approve")

	assert.Empty(t, b.click(anna, d, channel.ActionSnooze, "8h").Error)
	b.rounds(2)
	snooze := v1alpha1.Snooze{}
	require.NoError(t, json.Unmarshal([]byte(b.parents.value(d.Spec.Parent.Name, v1alpha1.AnnotationKeySnooze)), &snooze))
	assert.Equal(t, "anna@example.com", snooze.User)
	assert.WithinDuration(t, b.now().Add(8*time.Hour), snooze.Expiry.Time, time.Minute)
	assert.Contains(t, b.message(d).Blocks, "snoozed by anna@example.com until")

	b.click(anna, d, channel.ActionOpen, "")
	b.changed.Until(t, "the commands that open a change", func() bool {
		return strings.Contains(strings.Join(b.answers(anna), ""), "kubectl get drift -n shop "+d.Name)
	})
}

// TestTwoVoters covers KR-17-09: each click is a vote of its own, and the message shows what is missing.
func TestTwoVoters(t *testing.T) {
	d := held(1)
	d.Status.Lacks = "0 of 2 approvals; needs 2 of group dba"
	b := newBench(t, interceptor.Funcs{}, d)
	b.rounds(1)
	b.connect()
	assert.Contains(t, b.message(d).Blocks, "0 of 2 approvals")
	b.click(hans, d, channel.ActionApprove, "")
	b.rounds(2)
	b.parents.mu.Lock()
	delete(b.parents.values[d.Spec.Parent.Name], approveKey(d)) // a recorded vote takes its annotation away
	b.parents.mu.Unlock()
	b.change(d, func(d *v1alpha1.Drift) {
		d.Status.Lacks, d.Status.Votes = "1 of 2 approvals (hans@example.com)", []v1alpha1.Vote{{User: "hans@example.com"}}
	})
	b.rounds(1)
	assert.Contains(t, b.message(d).Blocks, "voted for by hans@example.com")
	b.click(anna, d, channel.ActionApprove, "")
	b.rounds(2)
	assert.Equal(t, []string{"hans@example.com " + approveKey(d), "anna@example.com " + approveKey(d)}, b.parents.writes())
}

// TestNotStored covers KR-17-08: a click that cannot be stored does nothing, and its user knows.
func TestNotStored(t *testing.T) {
	d := held(1)
	b := newBench(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if o.GetLabels()[labelHolds] == holdsClick {
			return errors.New("the API server is away")
		}
		return c.Create(ctx, o, opts...)
	}}, d)
	b.rounds(1)
	b.connect()
	assert.Empty(t, b.click(hans, d, channel.ActionApprove, "").Error)
	require.Len(t, b.answers(hans), 1)
	assert.Contains(t, b.answers(hans)[0], "Nothing was done: the click could not be stored")
	b.rounds(2)
	assert.Empty(t, b.parents.writes())
	b.click(hans, d, channel.ActionReject, "")
	ack, err := b.slack.Submit(slackfake.Submission{User: hans, Team: slackfake.Team, View: b.state().Views[0].ID, Reason: "no"})
	require.NoError(t, err)
	assert.Contains(t, string(ack.Payload), "Nothing was done", "the dialog stays")
}

// TestForged covers KR-17-08: what has no seal of the app is no click, nor one that was changed.
func TestForged(t *testing.T) {
	d := held(1)
	b := newBench(t, interceptor.Funcs{}, d)
	raw, err := json.Marshal(click{Team: slackfake.Team, User: hans, Action: channel.ActionApprove, Reference: reference("prod", d), At: b.now()})
	require.NoError(t, err)
	for name, seal := range map[string]string{"none": "", "other": newStore(nil, "", Tokens{Bot: "xoxb-x", App: "xapp-x"}).seal(string(raw))} {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kausality-system", Name: name, Labels: map[string]string{labelHolds: holdsClick}}}
		o.Data = map[string]string{"click": string(raw), "seal": seal}
		require.NoError(t, b.client.Create(t.Context(), o))
	}
	b.rounds(1)
	assert.Empty(t, b.parents.writes())
	assert.Empty(t, b.stored(holdsClick), "they are dropped")
}

// TestLeaderDies covers KR-17-08: whenever the leader ends, the next one goes on; an approval that was written and used is not written again.
func TestLeaderDies(t *testing.T) {
	for name, used := range map[string]bool{"Unused": false, "Used": true} {
		t.Run(name, func(t *testing.T) {
			d := held(1)
			b := newBench(t, interceptor.Funcs{}, d)
			b.rounds(1)
			b.connect()
			b.click(hans, d, channel.ActionApprove, "")
			b.parents.dies = func() { panic("killed") }
			require.Error(t, b.leader.both(t.Context()))
			b.parents.dies = nil
			require.Len(t, b.stored(holdsClick), 1)
			if used {
				b.parents.used(d.Spec.Parent.Name)
			}
			b.start()
			b.rounds(2)
			assert.Equal(t, []string{"hans@example.com " + approveKey(d)}, b.parents.writes(), "once")
			assert.Empty(t, b.stored(holdsClick))
			require.Len(t, b.answers(hans), 1)
			assert.Contains(t, b.message(d).Blocks, "approved by hans@example.com")
		})
	}
	t.Run("BeforeWork", func(t *testing.T) {
		d := held(1)
		b := newBench(t, interceptor.Funcs{}, d)
		b.rounds(1)
		b.connect()
		b.click(hans, d, channel.ActionApprove, "")
		b.start()
		b.rounds(1)
		assert.Len(t, b.parents.writes(), 1)
	})
	t.Run("TooOld", func(t *testing.T) {
		d := held(1)
		b := newBench(t, interceptor.Funcs{}, d)
		b.rounds(1)
		b.connect()
		b.click(hans, d, channel.ActionApprove, "")
		b.later(2 * maxWait)
		b.rounds(1)
		assert.Empty(t, b.parents.writes(), "what the user saw is too old")
	})
}

// TestTwoReplicas covers KR-17-08: either replica takes clicks, the leader works them off.
func TestTwoReplicas(t *testing.T) {
	d, e := held(1), held(2)
	e.Spec.Causes[0].Name = "xdatabases-other"
	b := newBench(t, interceptor.Funcs{}, d, e)
	b.rounds(1)
	b.connect()
	b.connect() // Slack sends each event to one of them
	b.click(hans, d, channel.ActionApprove, "")
	b.click(hans, e, channel.ActionApprove, "")
	b.rounds(1)
	assert.Len(t, b.parents.writes(), 2)
	require.NoError(t, b.slack.Disconnect())
	b.changed.Until(t, "both to be connected again", func() bool { return b.state().Sockets == 2 })
	assert.Empty(t, b.click(anna, d, channel.ActionApprove, "").Error)
}
