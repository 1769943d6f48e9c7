package policycontroller

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/scope"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

// namespaceIn a mode; "" for none.
func namespaceIn(name string, mode v1alpha1.Mode) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"other": "x"}}}
	if mode != "" {
		ns.Annotations[v1alpha1.AnnotationKeyMode] = string(mode)
	}
	return ns
}

// closedIn are the Namespaces by name that the configuration fails closed in.
func closedIn(t *testing.T, h *harness) (out []string) {
	t.Helper()
	live := &admissionregistrationv1.MutatingWebhookConfiguration{}
	require.True(t, h.exists(t, live, "", scope.ConfigurationName))
	for i := range live.Webhooks {
		w := &live.Webhooks[i]
		if *w.FailurePolicy != admissionregistrationv1.Fail {
			continue
		}
		for _, e := range w.NamespaceSelector.MatchExpressions {
			if e.Operator == metav1.LabelSelectorOpIn {
				out = append(out, e.Values...)
			}
		}
	}
	return out
}

// TestReconcileEnforced: Namespaces that begin and cease to enforce by their annotation are in the configuration, or leave it, the
// status has how many they are, and nothing is enforced in the Namespaces of the cluster or during a removal (KR-12-10, KR-12-11).
func TestReconcileEnforced(t *testing.T) {
	logs := shopPolicy()
	logs.Spec.Mode = v1alpha1.ModeLog
	h := newHarness(t, nil, policyCRD(), logs, namespaceIn("team-a", v1alpha1.ModeEnforce), namespaceIn("team-b", v1alpha1.ModeLog),
		namespaceIn("team-c", ""), namespaceIn("kube-system", v1alpha1.ModeEnforce))
	_, err := h.run(t)
	require.NoError(t, err)
	assert.Equal(t, []string{"team-a"}, closedIn(t, h))
	k := &v1alpha1.Kausality{}
	require.True(t, h.exists(t, k, "", "shop"))
	assert.Equal(t, "allows, refuses in 1 namespace", k.Status.DuringOutage)
	assert.EqualValues(t, 1, k.Status.EnforcedNamespaces)
	assert.Empty(t, k.Status.FailOpenNamespaces)

	b := namespaceIn("team-b", v1alpha1.ModeEnforce)
	require.NoError(t, h.Direct.Update(t.Context(), b))
	_, err = h.run(t)
	require.NoError(t, err)
	assert.Equal(t, []string{"team-a", "team-b"}, closedIn(t, h))

	require.NoError(t, h.Direct.Delete(t.Context(), namespaceIn("team-a", "")))
	require.NoError(t, h.Direct.Update(t.Context(), namespaceIn("team-b", "")))
	_, err = h.run(t)
	require.NoError(t, err)
	assert.Empty(t, closedIn(t, h))
	require.True(t, h.exists(t, k, "", "shop"))
	assert.Equal(t, "allows", k.Status.DuringOutage)

	require.NoError(t, h.Direct.Update(t.Context(), namespaceIn("team-c", v1alpha1.ModeEnforce)))
	live := &admissionregistrationv1.MutatingWebhookConfiguration{}
	require.True(t, h.exists(t, live, "", scope.ConfigurationName))
	live.Annotations = map[string]string{scope.AnnotationKeyRemoval: "now"}
	require.NoError(t, h.Direct.Update(t.Context(), live))
	_, err = h.run(t)
	require.NoError(t, err)
	assert.Empty(t, closedIn(t, h), "nothing is enforced during a removal (KR-12-08)")
}

// TestEnforcedChanges: of all events of Namespaces only those lead to a reconcile that change what is enforced, and nothing but the
// mode is cached.
func TestEnforcedChanges(t *testing.T) {
	enforcing, logging := namespaceIn("a", v1alpha1.ModeEnforce), namespaceIn("a", v1alpha1.ModeLog)
	p := enforcedChanges()
	assert.True(t, p.Create(event.CreateEvent{Object: enforcing}))
	assert.False(t, p.Create(event.CreateEvent{Object: logging}))
	assert.True(t, p.Delete(event.DeleteEvent{Object: enforcing}))
	assert.False(t, p.Delete(event.DeleteEvent{Object: logging}))
	assert.True(t, p.Update(event.UpdateEvent{ObjectOld: enforcing, ObjectNew: logging}))
	assert.True(t, p.Update(event.UpdateEvent{ObjectOld: logging, ObjectNew: enforcing}))
	assert.False(t, p.Update(event.UpdateEvent{ObjectOld: enforcing, ObjectNew: enforcing}))

	in := &metav1.PartialObjectMetadata{ObjectMeta: enforcing.ObjectMeta}
	in.Labels = map[string]string{"large": "x"}
	out, err := modeOnly(in)
	require.NoError(t, err)
	assert.Equal(t, metav1.ObjectMeta{Name: "a", Annotations: map[string]string{v1alpha1.AnnotationKeyMode: "enforce"}},
		out.(*metav1.PartialObjectMetadata).ObjectMeta) //nolint:errcheck // It panics.
	again, err := modeOnly("tombstone")
	require.NoError(t, err)
	assert.Equal(t, "tombstone", again)
}

// TestPulse: the policies show whether a replica of the webhook runs, and change only when that does (KR-12-11).
func TestPulse(t *testing.T) {
	now := time.Now()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: manifests.Heartbeat}}
	h := newHarness(t, nil, policyCRD(), shopPolicy())
	changed := make(chan event.GenericEvent, 10)
	h.pulse = newPulse(h.Direct, "home", changed)
	h.pulse.now = func() time.Time { return now }
	condition := func() metav1.Condition {
		_, err := h.run(t)
		require.NoError(t, err)
		k := &v1alpha1.Kausality{}
		require.True(t, h.exists(t, k, "", "shop"))
		return *meta.FindStatusCondition(k.Status.Conditions, v1alpha1.KausalityAnswering)
	}
	assert.Equal(t, metav1.ConditionUnknown, condition().Status, "not read yet")
	h.pulse.beat(t.Context())
	assert.Equal(t, v1alpha1.KausalityReasonNoLease, condition().Reason, "there is none")
	require.Len(t, changed, 1)

	lease.Spec.RenewTime = &metav1.MicroTime{Time: now.Add(-time.Second)}
	require.NoError(t, h.Direct.Create(t.Context(), lease))
	for range 3 {
		h.pulse.beat(t.Context())
	}
	assert.Len(t, changed, 2, "an event for a change alone")
	assert.Equal(t, metav1.ConditionTrue, condition().Status)

	now = now.Add(silentAfter)
	for range 3 {
		h.pulse.beat(t.Context())
	}
	assert.Len(t, changed, 3)
	down := condition()
	assert.Equal(t, v1alpha1.KausalityReasonNoHeartbeat, down.Reason)
	assert.Contains(t, down.Message, "no replica of the webhook is running")
	assert.Equal(t, metav1.ConditionUnknown, answeringOf(lease, errors.New("forbidden"), now).Status)
	ahead := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: now.Add(time.Hour)}}}
	assert.Equal(t, metav1.ConditionTrue, answeringOf(ahead, nil, now).Status, "a clock that is ahead")
}

// TestOutageUnknown: a status of which nothing was made has nothing about an outage.
func TestOutageUnknown(t *testing.T) {
	h := newHarness(t, func(verb string, _ client.Object) error { return onlyFor(verb == "apply", errors.New("boom")) }, policyCRD(), shopPolicy())
	_, err := h.run(t)
	require.Error(t, err)
	k := &v1alpha1.Kausality{}
	require.True(t, h.exists(t, k, "", "shop"))
	assert.Empty(t, k.Status.DuringOutage)
}
