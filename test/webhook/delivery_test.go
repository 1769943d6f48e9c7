package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/rights"
)

var events = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}

// TestDelivery: a receiver that is away while drifts begin and end, and while every replica is killed and started again,
// gets each phase of each of them. What was silenced by a snooze to its end is not reported; what is open after it is
// (KR-10-14, KR-10-15, KR-10-16). It runs alone, as TestReports does.
func TestDelivery(t *testing.T) {
	t.Cleanup(func() { rights.Show(t, the.AuditLog()) }) // once its processes have ended
	receiver := startBackend(t, "receiver")
	receiver.Kill()
	old := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kausality.io/v1alpha1", "kind": "DriftReceiver", "metadata": map[string]any{"name": ofWebhook + "old"},
		"spec": map[string]any{"component": v1alpha1.ManagerWebhook, "receiver": "old.example.org/00000000"},
	}}
	_, err := the.as(t, hans).Resource(driftReceivers).Create(t.Context(), old, metav1.CreateOptions{})
	require.NoError(t, err)
	f := startFleet(t, "delivery", options{replicas: 2, args: []string{
		"--drift-webhook-url=" + receiver.url, "--drift-webhook-ca-file=" + the.certs + "/ca.crt", "--drift-webhook-timeout=2s", "--cluster-name=test",
	}})
	s := newFixture(t, f, "delivery")
	s.settled("over", "open", "silenced", "snoozed", "late")
	over, open := s.eightRefusals("over"), s.eightRefusals("open")
	s.awaitFailed(receiver.url)
	s.receivedEvent("ReportFailed")
	s.snooze(time.Now().Add(time.Hour))
	silenced, snoozed := s.eightRefusals("silenced"), s.eightRefusals("snoozed")
	for _, id := range []string{silenced, snoozed} {
		s.awaitDrift(id, "to be recorded as snoozed", func(d *unstructured.Unstructured) bool { return field(d, "snoozed") == true })
	}

	// Both replicas are killed between the refusal and the report, and no process of this webhook is left to send it.
	for i := range f.replicas {
		f.crash(i)
	}
	for i := range f.replicas {
		f.restart(i)
	}
	for part, id := range map[string]string{"over": over, "silenced": silenced} {
		require.NoError(t, s.of(s.hans).Delete(t.Context(), part, metav1.DeleteOptions{}))
		s.awaitDrift(id, "to be resolved", func(d *unstructured.Unstructured) bool { return field(d, "phase") == "Resolved" })
	}
	for i := range f.replicas {
		f.crash(i)
	}
	require.NoError(t, receiver.Restart())
	for i := range f.replicas {
		f.restart(i)
	}
	all := observers{receiver}
	all.reported(t, over, v1alpha1.DriftDetected)
	all.reported(t, over, v1alpha1.DriftResolved)
	r := all.reported(t, open, v1alpha1.DriftDetected)
	if r.Spec.Cluster != "test" || r.Spec.Child.Name != "open" || r.Spec.Parent.Intent == nil || r.Spec.Parent.Intent.User != hans {
		t.Errorf("the report has %+v", r.Spec)
	}
	s.awaitDrift(open, "to show that it is delivered", func(d *unstructured.Unstructured) bool { return fmt.Sprint(delivery(d)["phase"]) == "Detected" })
	s.awaitReceiver(v1alpha1.ReasonDelivered)
	s.receivedEvent("ReportDelivered")

	// The snooze ends without another attempt of the controller.
	if n := len(receiver.reports(t, snoozed, v1alpha1.DriftDetected)); n > 0 {
		t.Errorf("a snoozed drift was reported %d times", n)
	}
	s.annotate(map[string]any{v1alpha1.AnnotationKeySnooze: nil})
	all.reported(t, snoozed, v1alpha1.DriftDetected)
	late := s.eightRefusals("late")
	all.reported(t, late, v1alpha1.DriftDetected)
	for _, phase := range []v1alpha1.DriftPhase{v1alpha1.DriftDetected, v1alpha1.DriftResolved} {
		if n := len(receiver.reports(t, silenced, phase)); n > 0 {
			t.Errorf("a drift that was silenced to its end was reported as %s", phase)
		}
	}
	s.ages(over)
	s.occursAgain("snoozed", snoozed)
}

// occursAgain: a difference is approved, reverted, and tried again by a request in another group: its Drift describes that from then on.
func (s *fixture) occursAgain(part, id string) {
	s.t.Helper()
	s.annotate(map[string]any{v1alpha1.AnnotationKeyApprovePrefix + id: v1alpha1.ApprovalOnce})
	wait.For(s.t, "the approved change to pass", wait.Patience, func(context.Context) error { return s.count(s.ctrl, part, 5) })
	s.awaitDrift(id, "to be resolved", func(d *unstructured.Unstructured) bool { return field(d, "phase") == "Resolved" })
	require.NoError(s.t, s.count(s.hans, part, 0))
	config := the.ConfigAsMaster(controller)
	config.Impersonate.Groups = append(config.Impersonate.Groups, "others")
	other, err := dynamic.NewForConfig(config)
	require.NoError(s.t, err)
	require.Equal(s.t, id, mustRefuse(s.t, s.count(other, part, 5), "Drift"))
	s.awaitDrift(id, "to describe the new request", func(d *unstructured.Unstructured) bool {
		groups, _, _ := unstructured.NestedStringSlice(d.Object, "spec", "request", "groups")
		return slices.Contains(groups, "others") && field(d, "phase") == "Detected"
	})
}

// ages a resolved Drift by eight days: it is deleted.
func (s *fixture) ages(id string) {
	s.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", the.kubeconfig)
	require.NoError(s.t, err)
	webhook, err := dynamic.NewForConfig(config) // nothing else may write Drifts
	require.NoError(s.t, err)
	status := fmt.Sprintf(`{"status":{"lastSeen":%q}}`, time.Now().Add(-8*24*time.Hour).UTC().Format(time.RFC3339))
	_, err = webhook.Resource(drifts).Namespace(s.ns).Patch(s.t.Context(), id, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	require.NoError(s.t, err)
	wait.For(s.t, "the old Drift to be deleted", wait.Patience, func(ctx context.Context) error {
		_, err := s.hans.Resource(drifts).Namespace(s.ns).Get(ctx, id, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("it exists")
		}
		if kerrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// snooze the App until a time.
func (s *fixture) snooze(until time.Time) {
	s.t.Helper()
	s.annotate(map[string]any{v1alpha1.AnnotationKeySnooze: `{"expiry":"` + until.UTC().Format(time.RFC3339) + `"}`})
}

// field of the status of a Drift.
func field(d *unstructured.Unstructured, name string) any {
	status, _ := d.Object["status"].(map[string]any)
	return status[name]
}

// delivery is the first entry of the deliveries of a Drift.
func delivery(d *unstructured.Unstructured) map[string]any {
	list, _ := field(d, "deliveries").([]any)
	for _, one := range list {
		if m, ok := one.(map[string]any); ok {
			return m
		}
	}
	return nil
}

// awaitDrift in a state.
func (s *fixture) awaitDrift(id, what string, is func(*unstructured.Unstructured) bool) {
	s.t.Helper()
	wait.For(s.t, "Drift "+id+" "+what, wait.Patience, func(ctx context.Context) error {
		d, err := s.hans.Resource(drifts).Namespace(s.ns).Get(ctx, id, metav1.GetOptions{})
		if err == nil && !is(d) {
			err = fmt.Errorf("its status is %v", d.Object["status"])
		}
		return err
	})
}

// awaitFailed until the DriftReceiver shows that reports do not arrive, without the URL, and a Drift that waits has the failure: the oldest
// are tried first, which may be those of other tests.
func (s *fixture) awaitFailed(url string) {
	s.t.Helper()
	status := s.awaitReceiver(v1alpha1.ReasonDeliveryFailed)
	if text := fmt.Sprint(status); strings.Contains(text, url) || !strings.Contains(text, "connection refused") {
		s.t.Errorf("the DriftReceiver has %s", text)
	}
	wait.For(s.t, "a Drift to have the failure", wait.Patience, func(ctx context.Context) error {
		list, err := s.hans.Resource(drifts).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			deliveries, _ := field(&list.Items[i], "deliveries").([]any)
			for _, d := range deliveries {
				if e, ok := d.(map[string]any); ok && strings.Contains(fmt.Sprint(e["message"]), "connection refused") && e["nextAttempt"] != nil {
					return nil
				}
			}
		}
		return fmt.Errorf("none of %d has", len(list.Items))
	})
}

// ofWebhook DriftReceivers are named; other tests leave those of other components.
const ofWebhook = v1alpha1.ManagerWebhook + "-"

// awaitReceiver until the only DriftReceiver of the webhook, since those that are configured no more are deleted, has a reason; its status is
// returned.
func (s *fixture) awaitReceiver(reason string) (status any) {
	s.t.Helper()
	wait.For(s.t, "the DriftReceiver to have reason "+reason, wait.Patience, func(ctx context.Context) error {
		list, err := s.hans.Resource(driftReceivers).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		all := slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool { return !strings.HasPrefix(o.GetName(), ofWebhook) })
		if len(all) != 1 {
			return fmt.Errorf("there are %d", len(all))
		}
		status = all[0].Object["status"]
		conditions, _, _ := unstructured.NestedSlice(all[0].Object, "status", "conditions")
		for _, c := range conditions {
			if m, ok := c.(map[string]any); ok && m["reason"] == reason {
				return nil
			}
		}
		return fmt.Errorf("it has %v", status)
	})
	return status
}

// receivedEvent of the DriftReceiver of the webhook, which has no Namespace.
func (s *fixture) receivedEvent(reason string) {
	s.t.Helper()
	wait.For(s.t, "an event "+reason, wait.Patience, func(ctx context.Context) error {
		list, err := s.hans.Resource(events).Namespace(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			kind, _, _ := unstructured.NestedString(e.Object, "regarding", "kind")
			name, _, _ := unstructured.NestedString(e.Object, "regarding", "name")
			if kind == "DriftReceiver" && strings.HasPrefix(name, ofWebhook) && e.Object["reason"] == reason {
				return nil
			}
		}
		return fmt.Errorf("there are %d others", len(list.Items))
	})
}
