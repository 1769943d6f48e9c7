package drift

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
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

// TestOwed covers KR-10-14 and KR-10-15: what a receiver is to be sent follows from the Drift alone.
func TestOwed(t *testing.T) {
	const to = "host/0a1b2c3d"
	now, earlier := metav1.NewTime(time.Unix(2000, 0)), metav1.NewTime(time.Unix(1000, 0))
	knows := func(p v1alpha1.DriftPhase, since metav1.Time) []v1alpha1.DriftDelivery {
		return []v1alpha1.DriftDelivery{{Receiver: "other/0", Since: &now, Phase: v1alpha1.DriftResolved}, {Receiver: to, Since: &since, Phase: p}}
	}
	detected, resolved := v1alpha1.DriftDetected, v1alpha1.DriftResolved
	cases := map[string]struct {
		reason string
		status v1alpha1.DriftStatus
		want   []v1alpha1.DriftPhase
	}{
		"Begun": {reason: "named by the write that began it",
			status: v1alpha1.DriftStatus{Phase: detected, Since: &now, Deliveries: knows("", now)},
			want:   []v1alpha1.DriftPhase{detected}},
		"Known": {reason: "it has it",
			status: v1alpha1.DriftStatus{Phase: detected, Since: &now, Deliveries: knows(detected, now)}},
		"NewReceiver": {reason: "it gets what is open",
			status: v1alpha1.DriftStatus{Phase: detected, Since: &now},
			want:   []v1alpha1.DriftPhase{detected}},
		"Over": {reason: "it knows that it was open",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now, Deliveries: knows(detected, now)},
			want:   []v1alpha1.DriftPhase{resolved}},
		"BrokenGlass": {reason: "that one user approved it alone comes before the end",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now, BrokenGlass: &v1alpha1.Vote{User: "alice"}, Deliveries: knows(detected, now)},
			want:   []v1alpha1.DriftPhase{v1alpha1.DriftBrokenGlass, resolved}},
		"BrokenGlassKnown": {reason: "and once",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now, BrokenGlass: &v1alpha1.Vote{User: "alice"}, Deliveries: knows(v1alpha1.DriftBrokenGlass, now)},
			want:   []v1alpha1.DriftPhase{resolved}},
		"BrokenGlassAway": {reason: "who was away gets all of it",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now, BrokenGlass: &v1alpha1.Vote{User: "alice"}, Deliveries: knows("", now)},
			want:   []v1alpha1.DriftPhase{detected, v1alpha1.DriftBrokenGlass, resolved}},
		"OverKnown": {reason: "it knows",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now, Deliveries: knows(resolved, now)}},
		"Away": {reason: "it gets each phase, in order",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now, Deliveries: knows("", now)},
			want:   []v1alpha1.DriftPhase{detected, resolved}},
		"OverBefore": {reason: "a new receiver does not know that it was open",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now}},
		"Snoozed": {reason: "not before the snooze ends",
			status: v1alpha1.DriftStatus{Phase: detected, Since: &now, Snoozed: true, Deliveries: knows("", now)}},
		"SnoozedToTheEnd": {reason: "it was never Detected for it",
			status: v1alpha1.DriftStatus{Phase: resolved, Since: &now, Snoozed: true, Deliveries: knows("", now)}},
		"AnotherOccurence": {reason: "what it knows is about an earlier one",
			status: v1alpha1.DriftStatus{Phase: detected, Since: &now, Deliveries: knows(resolved, earlier)},
			want:   []v1alpha1.DriftPhase{detected}},
		"SameSecond": {reason: "it occurred again at once",
			status: v1alpha1.DriftStatus{Phase: detected, Since: &now, Deliveries: knows(resolved, now)},
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
	r := started(t, Config{Client: c, Receivers: []string{s.Name}})
	for _, id := range ids {
		require.NoError(t, r.Record(t.Context(), item(id)))
	}
	return r
}

// readyOf the DriftReceiver of a test endpoint.
func readyOf(t *testing.T, c client.Client, s *Sender) (*v1alpha1.DriftReceiver, metav1.Condition) {
	t.Helper()
	o := &v1alpha1.DriftReceiver{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: objectName(v1alpha1.ManagerWebhook, s.Name)}, o))
	ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
	require.NotNil(t, ready)
	return o, *ready
}

// TestObjectName: a DriftReceiver is named by component, host and hash, in characters that names may have.
func TestObjectName(t *testing.T) {
	assert.Equal(t, "kausality-webhook-hooks-example-org-8443-0a1b2c3d", objectName(v1alpha1.ManagerWebhook, "Hooks.example.org:8443/0a1b2c3d"))
	assert.Equal(t, "kausality-gate-channel", objectName(v1alpha1.ManagerGate, "channel"))
	assert.LessOrEqual(t, len(objectName(v1alpha1.ManagerWebhook, strings.Repeat("a.", 200)+"/0a1b2c3d")), 253)
}

// TestDeliverFailures covers KR-10-14 and KR-10-16: a receiver that fails is left alone for longer each time, nothing is lost,
// and its DriftReceiver, the Drift, an event and metrics show it.
func TestDeliverFailures(t *testing.T) {
	c := driftClient(t, identified())
	e, sender := newTestEndpoint(t, 503, 503)
	r := recordedIn(t, c, sender, "a1", "b2")
	to := deliveriesTo(c, sender)
	now := time.Now()
	to.now = func() time.Time { return now }
	recorder := events.NewFakeRecorder(10)
	to.Events = recorder
	assert.Empty(t, e.sent(t, to))
	assert.Len(t, e.codes, 1, "the receiver is tried once, whatever waits for it")
	a, b := get(t, c, "ns", "a1"), get(t, c, "ns", "b2")
	assert.EqualValues(t, 1, a.Status.Deliveries[0].Attempts)
	assert.NotNil(t, a.Status.Deliveries[0].LastAttempt)
	assert.Equal(t, seconds(to.next).Unix(), a.Status.Deliveries[0].NextAttempt.Unix())
	assert.Contains(t, a.Status.Deliveries[0].Message, "503")
	assert.Empty(t, b.Status.Deliveries[0].Message, "one write for each attempt")
	o, ready := readyOf(t, c, sender)
	assert.Equal(t, metav1.ConditionFalse, ready.Status)
	assert.Equal(t, v1alpha1.ReasonDeliveryFailed, ready.Reason)
	assert.Contains(t, ready.Message, "503")
	assert.EqualValues(t, 2, o.Status.Pending)
	assert.Equal(t, a.Status.Since.Unix(), o.Status.OldestPending.Unix())
	assert.NotNil(t, o.Status.NextAttempt)
	assert.Contains(t, <-recorder.Events, "Warning ReportFailed "+sender.Name)

	assert.Empty(t, e.sent(t, to))
	assert.Len(t, e.codes, 1, "not at once again")
	first := to.next.Sub(now)
	now = to.next
	assert.Empty(t, e.sent(t, to))
	assert.Greater(t, to.next.Sub(now), first, "and then later")
	assert.EqualValues(t, 1, get(t, c, "ns", "b2").Status.Deliveries[0].Attempts, "another Drift comes first, since it may be about that one")
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
	assert.Equal(t, v1alpha1.DriftDelivery{Receiver: sender.Name, Since: a.Status.Since, Phase: v1alpha1.DriftResolved,
		ReportedAt: a.Status.Deliveries[0].ReportedAt}, a.Status.Deliveries[0])
	assert.Contains(t, <-recorder.Events, "Normal ReportDelivered")
	assert.Len(t, e.sent(t, to), 3, "each once")
	o, ready = readyOf(t, c, sender)
	assert.Equal(t, metav1.ConditionTrue, ready.Status)
	assert.NotNil(t, o.Status.LastDelivered)
	assert.Nil(t, o.Status.NextAttempt)
	assert.Empty(t, recorder.Events)
}

// identified objects, as an API server stores them.
func identified() interceptor.Funcs {
	return interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		o.SetUID(types.UID(o.GetName()))
		return c.Create(ctx, o, opts...)
	}}
}

// TestDeliverRefused covers KR-10-14: a report that a receiver refuses delays no other one.
func TestDeliverRefused(t *testing.T) {
	c := driftClient(t, identified())
	e, sender := newTestEndpoint(t, 400)
	recordedIn(t, c, sender, "a1", "b2")
	to := deliveriesTo(c, sender)
	now := time.Now()
	to.now = func() time.Time { return now }
	reports := e.sent(t, to)
	require.Len(t, reports, 1)
	assert.Equal(t, "b2", reports[0].Spec.ID)
	assert.Len(t, e.sent(t, to), 1, "not at once again")
	_, ready := readyOf(t, c, sender)
	assert.Equal(t, v1alpha1.ReasonDeliveryRefused, ready.Reason)
	assert.Contains(t, ready.Message, "1 Drifts, which are repeated; that of ns/a1: it answered 400")
	assert.Equal(t, now.Add(firstRefused).Unix(), get(t, c, "ns", "a1").Status.Deliveries[0].NextAttempt.Unix())
	now = now.Add(firstRefused)
	assert.Len(t, e.sent(t, to), 2, "it is not given up")
	_, ready = readyOf(t, c, sender)
	assert.Equal(t, metav1.ConditionTrue, ready.Status)
}

// TestDeliverPoisoned covers KR-10-14: a report that has a receiver fail for ever, not refuse it, delays no other one either.
func TestDeliverPoisoned(t *testing.T) {
	c := driftClient(t, identified())
	var got []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		report := v1alpha1.DriftReport{}
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil || report.Spec.ID == "a1" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		got = append(got, report.Spec.ID)
	}))
	t.Cleanup(server.Close)
	sender := &Sender{Name: "host/0a1b2c3d", url: server.URL, client: server.Client()}
	r := recordedIn(t, c, sender, "a1", "b2")
	to := deliveriesTo(c, sender)
	now := time.Now()
	to.now = func() time.Time { return now }
	round := func() { require.NoError(t, to.round(t.Context())) }
	round()
	assert.Empty(t, got, "it is not known yet what fails")
	now = to.next
	round()
	assert.Equal(t, []string{"b2"}, got)
	for _, id := range []string{"c3", "d4", "e5"} {
		now = now.Add(time.Hour)
		round() // a1 fails again
		require.NoError(t, r.Record(t.Context(), item(id)))
		round()
		assert.Equal(t, id, got[len(got)-1], "at once")
	}
	_, ready := readyOf(t, c, sender)
	assert.Equal(t, v1alpha1.ReasonDeliveryRefused, ready.Reason)
}

// TestDeliverInterrupted covers KR-10-14: a process that ends between the answer of a receiver and the write of it sends once more,
// one that goes on does not.
func TestDeliverInterrupted(t *testing.T) {
	away := true
	c := driftClient(t, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if d, ok := o.(*v1alpha1.Drift); ok && away && d.Status.Deliveries[0].Phase != "" {
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
