package webhook

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

var approvalPolicies = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "approvalpolicies"}

// TestSlackException covers KR-17-26 on a real API server with the real webhook: a user who may not create policies makes no exception, and one who
// may makes it as himself. Updates then pass without an approval, also of what was held before; that an object is deleted is held all the same.
func TestSlackException(t *testing.T) {
	f := startFleet(t, "slackexception", options{replicas: 1})
	s := newFixture(t, f, "slackexception")
	s.settled("part", "other")
	b := startSlack(t, s)
	require.NoError(t, the.Grant(t.Context(), hans,
		rbacv1.PolicyRule{APIGroups: []string{"kausality.io"}, Resources: []string{"approvalpolicies"}, Verbs: []string{"create", "get"}}))
	m := b.message(mustRefuse(t, s.count(s.ctrl, "part", 5), "Drift"), "Make an exception")
	other := mustRefuse(t, s.count(s.ctrl, "other", 5), "Drift")
	s.annotate(map[string]any{v1alpha1.AnnotationKeyRejections: `[{"apiVersion":"*","kind":"*","name":"other","reason":"not before the migration"}]`})
	b.message(other, "not before the migration") // KR-10-21: it was decided elsewhere
	s.annotate(map[string]any{v1alpha1.AnnotationKeyRejections: nil})

	chosen := map[string]string{"scope": "kind", "until": "8h"}
	b.except(memberEve, m, chosen)
	b.answered(memberEve, eve+" may not do that. It takes the verbs create and get on approvalpolicies")
	shown := b.except(memberHans, m, chosen)
	assert.Contains(t, shown, "kind: ApprovalPolicy")
	assert.Contains(t, shown, "updates by "+controller+" pass without an approval")
	b.answered(memberHans, "kubectl delete approvalpolicy exception-")
	for _, part := range []string{"part", "other"} {
		wait.For(t, "updates of "+part+" to pass", wait.Patience, func(context.Context) error { return s.count(s.ctrl, part, 5) })
	}
	mustRefuse(t, s.of(s.ctrl).Delete(t.Context(), "other", metav1.DeleteOptions{}), "Drift")

	policies := s.alice().Resource(approvalPolicies).Namespace(s.ns)
	list, err := policies.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	require.NoError(t, policies.Delete(t.Context(), list.Items[0].GetName(), metav1.DeleteOptions{}))
	wait.For(t, "updates to be held again", wait.Patience, func(context.Context) error {
		if !refused(s.count(s.ctrl, "part", 7, metav1.DryRunAll), "Drift") {
			return errors.New("they pass")
		}
		return nil
	})
}

// except makes an exception in the dialog that a member opens, and returns what the dialog showed for what was chosen.
func (b *slackBench) except(member string, m *slackfake.Message, chosen map[string]string) (shown string) {
	b.t.Helper()
	block, _ := m.Block()
	ack, err := b.slack.Click(slackfake.Click{User: member, Team: slackfake.Team, TS: m.TS, Block: block, Action: "kausality:exception"})
	require.NoError(b.t, err)
	require.Empty(b.t, ack.Error)
	state, err := b.slack.State()
	require.NoError(b.t, err)
	require.NotEmpty(b.t, state.Views, strings.Join(b.answers(member), "\n"))
	view := state.Views[len(state.Views)-1].ID
	submission := slackfake.Submission{User: member, Team: slackfake.Team, View: view, Chosen: chosen}
	for _, do := range []func(slackfake.Submission) (slackfake.Acknowledged, error){b.slack.Choose, b.slack.Submit} {
		ack, err = do(submission)
		require.NoError(b.t, err)
		require.Empty(b.t, ack.Error)
		require.Empty(b.t, ack.Payload)
	}
	state, err = b.slack.State()
	require.NoError(b.t, err)
	for _, v := range state.Views {
		if v.ID == view {
			shown = string(v.Raw)
		}
	}
	return shown
}
