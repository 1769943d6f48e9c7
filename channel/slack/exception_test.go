package slack

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
)

// scaled is a change by a controller, below an object of its own.
func scaled(n int) *v1alpha1.Drift {
	d := held(n)
	d.Spec.User = "system:serviceaccount:robots:scaler"
	since := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	d.Status.Since = &since
	return d
}

// dialog of an exception that a user opens: its id, and what it shows.
func (b *bench) dialog(user string, d *v1alpha1.Drift) (id, shown string) {
	b.t.Helper()
	assert.Empty(b.t, b.click(user, d, channel.ActionException, "").Error)
	views := b.state().Views
	require.NotEmpty(b.t, views)
	last := views[len(views)-1]
	return last.ID, string(last.Raw)
}

// TestExceptionDialog covers KR-17-26: the dialog shows the policy and what it would have let pass, for what is chosen; it is made as the user.
func TestExceptionDialog(t *testing.T) {
	d, other, old := scaled(1), scaled(2), scaled(3)
	*old.Status.Since = metav1.NewTime(time.Now().Add(-8 * 24 * time.Hour))
	many := []*v1alpha1.Drift{d, other, old}
	for n := range 7 {
		over := scaled(10 + n)
		over.Status.Phase = v1alpha1.DriftResolved
		many = append(many, over)
	}
	b := newBench(t, interceptor.Funcs{}, many...)
	b.rounds(3)
	b.connect()
	_, buttons := b.message(d).Block()
	assert.Contains(t, buttons, "kausality:exception")
	id, shown := b.dialog(hans, d)
	for _, want := range []string{"kind: ApprovalPolicy", "mode: always", "name: orders-1-abc", "exception-" + d.Name + "-object-", "No other change",
		"updates by system:serviceaccount:robots:scaler pass without an approval", `"initial_option"`} {
		assert.Contains(t, shown, want)
	}
	chosen := slackfake.Submission{User: hans, Team: slackfake.Team, View: id, Chosen: map[string]string{"scope": "kind", "until": "8h"}}
	got, err := b.slack.Choose(chosen)
	require.NoError(t, err)
	require.Empty(t, got.Error)
	shown = string(b.state().Views[0].Raw)
	for _, want := range []string{"exception-" + d.Name + "-kind-", "would have let pass, too", "orders-2-abc", "and 3 more"} {
		assert.Contains(t, shown, want)
	}
	assert.NotContains(t, shown, "orders-3-abc", "of more than 7 days ago")
	assert.NotContains(t, shown, "name: orders-1-abc")
	got, err = b.slack.Submit(chosen)
	require.NoError(t, err)
	assert.Empty(t, got.Error)
	assert.Empty(t, got.Payload)
	assert.Empty(t, b.parents.writes())
	b.rounds(2)
	require.Len(t, b.parents.writes(), 1)
	assert.Contains(t, b.parents.writes()[0], "hans@example.com ApprovalPolicy exception-"+d.Name+"-kind-")
	require.Len(t, b.answers(hans), 1)
	assert.Contains(t, b.answers(hans)[0], "To end it: kubectl delete approvalpolicy exception-"+d.Name)
	assert.Contains(t, b.message(d).Blocks, "excepted by hans@example.com until")
}

// TestNoException covers KR-17-26: no exception like a change that deletes, is over, or is another one than was shown, nor by who may not.
func TestNoException(t *testing.T) {
	d, deletion := scaled(1), scaled(2)
	deletion.Spec.Operation = "DELETE"
	b := newBench(t, interceptor.Funcs{}, d, deletion)
	b.rounds(2)
	b.connect()
	_, buttons := b.message(deletion).Block()
	assert.NotContains(t, buttons, "kausality:exception")
	b.clickOn(hans, slackfake.Team, b.message(deletion), channel.ActionException, "")
	assert.Empty(t, b.state().Views, "the button was not offered")
	assert.Contains(t, b.answers(hans)[0], "an exception is for updates by a known user")

	submit := func(user, id string) slackfake.Acknowledged {
		got, err := b.slack.Submit(slackfake.Submission{User: user, Team: slackfake.Team, View: id})
		require.NoError(t, err)
		return got
	}
	b.parents.forbidden = map[string]bool{"eve@example.com": true}
	id, _ := b.dialog(eve, d)
	submit(eve, id)
	b.rounds(1)
	assert.Contains(t, fmt.Sprint(b.answers(eve)), "eve@example.com may not do that. It takes the verbs create and get on approvalpolicies")

	id, _ = b.dialog(hans, d)
	b.later(2 * time.Hour)
	assert.Contains(t, string(submit(hans, id).Payload), "more than an hour old")
	id, _ = b.dialog(hans, d)
	before := b.message(d)
	b.change(d, func(d *v1alpha1.Drift) { d.Spec.Difference[0].New = "500" })
	submit(hans, id)
	b.rounds(1)
	assert.Contains(t, fmt.Sprint(b.answers(hans)), "it has changed since it was shown to you")
	b.clickOn(anna, slackfake.Team, before, channel.ActionException, "")
	assert.Contains(t, fmt.Sprint(b.answers(anna)), "it has changed since it was shown to you")
	for _, w := range b.parents.writes() {
		assert.NotContains(t, w, "ApprovalPolicy")
	}
}
