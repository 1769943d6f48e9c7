package drift

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestOwed covers KR-10-14 and KR-10-15: what a destination is to be sent follows from the Drift alone.
func TestOwed(t *testing.T) {
	const to = "host/0a1b2c3d"
	now, earlier := metav1.NewTime(time.Unix(2000, 0)), metav1.NewTime(time.Unix(1000, 0))
	knows := func(p v1alpha1.DriftPhase, since metav1.Time) []v1alpha1.DriftDelivery {
		return []v1alpha1.DriftDelivery{{Destination: "other/0", Since: &now, Phase: v1alpha1.DriftResolved}, {Destination: to, Since: &since, Phase: p}}
	}
	detected, resolved := v1alpha1.DriftDetected, v1alpha1.DriftResolved
	cases := map[string]struct {
		reason string
		status v1alpha1.DriftStatus
		want   []v1alpha1.DriftPhase
	}{
		"Begun": {reason: "named by the write that began it",
			status: v1alpha1.DriftStatus{Phase: detected, Since: &now, Reports: knows("", now)},
			want:   []v1alpha1.DriftPhase{detected}},
		"Known": {reason: "it has it",
			status: v1alpha1.DriftStatus{Phase: detected, Since: &now, Reports: knows(detected, now)}},
		"NewDestination": {reason: "it gets what is open",
			status: v1alpha1.DriftStatus{Phase: detected, Since: &now},
			want:   []v1alpha1.DriftPhase{detected}},
		"Over": {reason: "it knows that it was open",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now, Reports: knows(detected, now)},
			want:   []v1alpha1.DriftPhase{resolved}},
		"BrokenGlass": {reason: "that one user approved it alone comes before the end",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now, BrokenGlass: &v1alpha1.Vote{User: "alice"}, Reports: knows(detected, now)},
			want:   []v1alpha1.DriftPhase{v1alpha1.DriftBrokenGlass, resolved}},
		"BrokenGlassKnown": {reason: "and once",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now, BrokenGlass: &v1alpha1.Vote{User: "alice"}, Reports: knows(v1alpha1.DriftBrokenGlass, now)},
			want:   []v1alpha1.DriftPhase{resolved}},
		"BrokenGlassAway": {reason: "who was away gets all of it",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now, BrokenGlass: &v1alpha1.Vote{User: "alice"}, Reports: knows("", now)},
			want:   []v1alpha1.DriftPhase{detected, v1alpha1.DriftBrokenGlass, resolved}},
		"OverKnown": {reason: "it knows",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now, Reports: knows(resolved, now)}},
		"Away": {reason: "it gets each phase, in order",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now, Reports: knows("", now)},
			want:   []v1alpha1.DriftPhase{detected, resolved}},
		"OverBefore": {reason: "a new destination does not know that it was open",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now}},
		"Snoozed": {reason: "not before the snooze ends",
			status: v1alpha1.DriftStatus{Phase: detected, Since: &now, Snoozed: true, Reports: knows("", now)}},
		"SnoozedToTheEnd": {reason: "it was never Detected for it",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now, Snoozed: true, Reports: knows("", now)}},
		"AnotherOccurence": {reason: "what it knows is about an earlier one",
			status: v1alpha1.DriftStatus{Phase: detected, Since: &now, Reports: knows(resolved, earlier)},
			want:   []v1alpha1.DriftPhase{detected}},
		"SameSecond": {reason: "it occurred again at once",
			status: v1alpha1.DriftStatus{Phase: detected, Since: &now, Reports: knows(resolved, now)},
			want:   []v1alpha1.DriftPhase{detected}},
		"Unrecorded": {reason: "its first status is not written",
			status: v1alpha1.DriftStatus{}},
		"NeverRecorded": {reason: "it was over before",
			status: v1alpha1.DriftStatus{Phase: resolved}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, owed(&tc.status, to), tc.reason) })
	}
}

// recordedIn a client by a Reporter that owes a sender.
func recordedIn(t *testing.T, c client.Client, s *Sender, ids ...string) *Reporter {
	t.Helper()
	r := started(t, Config{Client: c, Destinations: []string{s.Name}})
	for _, id := range ids {
		require.NoError(t, r.Record(t.Context(), item(id)))
	}
	return r
}

// TestDeliverFailures covers KR-10-14 and KR-10-16: a destination that fails is left alone for longer each time, nothing is lost,
// and the Drift, an event and metrics show it.
func TestDeliverFailures(t *testing.T) {
	c := driftClient(t, interceptor.Funcs{})
	e, sender := newTestEndpoint(t, 503, 503)
	r := recordedIn(t, c, sender, "a1", "b2")
	to := deliveriesTo(c, sender)
	recorder := events.NewFakeRecorder(10)
	to.Events = recorder
	assert.Empty(t, e.sent(t, to))
	assert.Len(t, e.codes, 1, "the destination is tried once, whatever waits for it")
	a, b := get(t, c, "ns", "a1"), get(t, c, "ns", "b2")
	assert.EqualValues(t, 1, a.Status.Reports[0].Attempts)
	assert.NotNil(t, a.Status.Reports[0].LastAttempt)
	assert.Contains(t, b.Status.Reports[0].Message, "503", "it waits for the same destination")
	for _, d := range []*v1alpha1.Drift{a, b} {
		condition := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReported)
		require.NotNil(t, condition)
		assert.Equal(t, metav1.ConditionFalse, condition.Status)
		assert.Equal(t, v1alpha1.ReasonDeliveryFailed, condition.Reason)
		assert.Contains(t, condition.Message, "503")
	}
	assert.Contains(t, <-recorder.Events, "ReportFailed")

	assert.Empty(t, e.sent(t, to))
	assert.Len(t, e.codes, 1, "not at once again")
	first := time.Until(to.next)
	to.next = time.Time{}
	assert.Empty(t, e.sent(t, to))
	assert.Greater(t, time.Until(to.next), first, "and then later")
	assert.EqualValues(t, 2, get(t, c, "ns", "a1").Status.Reports[0].Attempts)
	require.NoError(t, r.Resolve(t.Context(), get(t, c, "ns", "a1"), "it was approved", nil))

	// Another leader, hours later: what is owed is in the Drifts.
	to = deliveriesTo(c, sender)
	to.Events = recorder
	reports := e.sent(t, to)
	require.Len(t, reports, 3)
	var got []string
	for _, one := range reports {
		got = append(got, one.Spec.ID+" "+string(one.Spec.Phase))
	}
	assert.ElementsMatch(t, []string{"a1 Detected", "a1 Resolved", "b2 Detected"}, got)
	a = get(t, c, "ns", "a1")
	assert.Equal(t, v1alpha1.DriftDelivery{Destination: sender.Name, Since: a.Status.Since, Phase: v1alpha1.DriftResolved,
		ReportedAt: a.Status.Reports[0].ReportedAt}, a.Status.Reports[0])
	assert.True(t, meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionReported))
	assert.Contains(t, <-recorder.Events, "ReportDelivered")
	assert.Len(t, e.sent(t, to), 3, "each once")
}

// TestDeliverRefused covers KR-10-14: a report that a destination refuses delays no other one.
func TestDeliverRefused(t *testing.T) {
	c := driftClient(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		o.SetUID(types.UID(o.GetName()))
		return c.Create(ctx, o, opts...)
	}})
	e, sender := newTestEndpoint(t, 400)
	recordedIn(t, c, sender, "a1", "b2")
	to := deliveriesTo(c, sender)
	reports := e.sent(t, to)
	require.Len(t, reports, 1)
	assert.Equal(t, "b2", reports[0].Spec.ID)
	assert.Len(t, e.sent(t, to), 1, "not at once again")
	to.refused[get(t, c, "ns", "a1").UID] = refusal{}
	assert.Len(t, e.sent(t, to), 2, "it is not given up")
}

// TestDeliverInterrupted covers KR-10-14: a process that ends between the answer of a destination and the write of it sends once more,
// one that goes on does not.
func TestDeliverInterrupted(t *testing.T) {
	away := true
	c := driftClient(t, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if d, ok := o.(*v1alpha1.Drift); ok && away && d.Status.Reports[0].Phase != "" {
				return errors.New("away")
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	e, sender := newTestEndpoint(t)
	recordedIn(t, c, sender, "a1")
	to := deliveriesTo(c, sender)
	assert.Len(t, e.sent(t, to), 1)
	assert.Len(t, e.sent(t, to), 1, "it knows that it was accepted")
	again := deliveriesTo(c, sender)
	reports := e.sent(t, again)
	require.Len(t, reports, 2, "at least once")
	assert.Equal(t, reports[0].Spec.ReportID, reports[1].Spec.ReportID, "by which the receiver sees that it is the same")
	away = false
	assert.Len(t, e.sent(t, again), 2)
	assert.Len(t, e.sent(t, deliveriesTo(c, sender)), 2)
}

// TestDeliverMine: each process sends what it records.
func TestDeliverMine(t *testing.T) {
	c := driftClient(t, interceptor.Funcs{})
	e, sender := newTestEndpoint(t)
	recordedIn(t, c, sender, "a1")
	to := deliveriesTo(c, sender)
	to.Mine = OfGate
	assert.Empty(t, e.sent(t, to))
}

// TestOpenBy covers KR-10-19: Namespaces beyond the bound are counted together.
func TestOpenBy(t *testing.T) {
	list := &v1alpha1.DriftList{}
	add := func(ns string, d v1alpha1.DriftSpec, phase v1alpha1.DriftPhase) {
		list.Items = append(list.Items, v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: ns}, Spec: d, Status: v1alpha1.DriftStatus{Phase: phase}})
	}
	child := v1alpha1.DriftSpec{Relation: v1alpha1.RelationControllerChild, Causes: []v1alpha1.HopCause{{Kind: v1alpha1.CauseImage}, {Kind: v1alpha1.CauseUser}}}
	for i := range maxNamespaces + 5 {
		add("ns-"+string(rune('A'+i/26))+string(rune('a'+i%26)), v1alpha1.DriftSpec{Relation: v1alpha1.RelationExternal}, v1alpha1.DriftDetected)
	}
	add("busy", child, v1alpha1.DriftDetected)
	add("busy", child, v1alpha1.DriftDetected)
	add("busy", child, v1alpha1.DriftResolved)
	got := openBy(list)
	assert.Len(t, got, maxNamespaces+1)
	assert.Equal(t, 2, got[counted{v1alpha1.RelationControllerChild, "busy", "Image"}])
	assert.Equal(t, 6, got[counted{v1alpha1.RelationExternal, otherNamespaces, causeExternal}])
}
