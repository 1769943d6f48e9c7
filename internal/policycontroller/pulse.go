package policycontroller

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

const (
	// pulseEvery is how often the heartbeat of the webhook is read.
	pulseEvery = 5 * time.Second
	// silentAfter is how old the last heartbeat is when the webhook counts as down. Its replicas write one every two seconds.
	silentAfter = 15 * time.Second
	// pulseTimeout bounds one read.
	pulseTimeout = 3 * time.Second
)

// pulse knows whether any replica of the webhook runs, by the heartbeat that they write (KR-12-11). It requests a
// reconcile when that changes, and runs on the leader.
type pulse struct {
	client    client.Reader
	namespace string
	changed   chan<- event.GenericEvent
	now       func() time.Time

	last atomic.Pointer[metav1.Condition]
}

// answering returns the condition Answering, without its generation.
func answering(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.KausalityAnswering, Status: status, Reason: reason, Message: message}
}

// unanswered is what is known before the first read.
var unanswered = answering(metav1.ConditionUnknown, v1alpha1.KausalityReasonNoLease, "the heartbeat of the webhook was not read yet")

// newPulse of the webhook that writes its heartbeat in a namespace.
func newPulse(c client.Reader, namespace string, changed chan<- event.GenericEvent) *pulse {
	return &pulse{client: c, namespace: namespace, changed: changed, now: clock.Now}
}

// state as of the last read. nil knows nothing.
func (p *pulse) state() metav1.Condition {
	if p == nil {
		return unanswered
	}
	return *cmp.Or(p.last.Load(), &unanswered)
}

// Start reads the heartbeat until the context ends.
func (p *pulse) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, p.beat, pulseEvery)
	return nil
}

// NeedLeaderElection is true: the leader alone reports.
func (*pulse) NeedLeaderElection() bool { return true }

// beat reads the heartbeat once.
func (p *pulse) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pulseTimeout)
	defer cancel()
	lease := &coordinationv1.Lease{}
	err := p.client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: manifests.Heartbeat}, lease)
	next := answeringOf(lease, err, p.now())
	if next == p.state() {
		return
	}
	p.last.Store(&next)
	select {
	case p.changed <- event.GenericEvent{Object: lease}:
	case <-ctx.Done():
	}
}

// answeringOf the Lease of the webhook, or the error of reading it. A time in the future counts as now.
func answeringOf(lease *coordinationv1.Lease, err error, now time.Time) metav1.Condition {
	switch renewed := lease.Spec.RenewTime; {
	case err != nil:
		return answering(metav1.ConditionUnknown, v1alpha1.KausalityReasonNoLease, "cannot read the heartbeat of the webhook")
	case renewed == nil:
		return answering(metav1.ConditionUnknown, v1alpha1.KausalityReasonNoLease, "the webhook has not written a heartbeat yet")
	case now.Sub(renewed.Time) > silentAfter:
		return answering(metav1.ConditionFalse, v1alpha1.KausalityReasonNoHeartbeat,
			fmt.Sprintf("no replica of the webhook is running; the last heartbeat is of %s", renewed.UTC().Format(time.RFC3339)))
	}
	return answering(metav1.ConditionTrue, v1alpha1.KausalityReasonHeartbeat, "a replica of the webhook is running")
}
