package drift

import (
	"context"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Channel is a receiver that a process of its own serves and that is sent no DriftReports, as Slack is (KR-17-06). Like other
// receivers it has an entry in the status of Drifts, which that process adds, and a DriftReceiver. One goroutine uses it.
type Channel struct{ t *receiver }

// NewChannel of a name without a slash, by which it differs from the receivers of DriftReports.
func NewChannel(c client.Client, component, name string, recorder events.EventRecorder, log logr.Logger) *Channel {
	d := &Deliverer{Drifts: c, Client: c, Component: component, Events: recorder, Log: log}
	return &Channel{t: d.receiver(&Sender{Name: name})}
}

// isChannel reports whether a receiver is a Channel.
func isChannel(receiver string) bool { return !strings.Contains(receiver, "/") }

// Owed returns the phases of a drift that the channel is to show, in their order, as of other receivers (KR-10-14).
func (c *Channel) Owed(d *v1alpha1.Drift) []v1alpha1.DriftPhase { return owed(&d.Status, c.t.Name) }

// Delivered records in a Drift the phase that the channel shows.
func (c *Channel) Delivered(ctx context.Context, d *v1alpha1.Drift, phase v1alpha1.DriftPhase) error {
	return c.t.record(ctx, d.DeepCopy(), phase, nil)
}

// Succeeded notes that the channel has accepted something.
func (c *Channel) Succeeded() {
	deliveries.WithLabelValues(c.t.Name, "delivered").Inc()
	c.Reached()
	c.t.delivered = c.t.now()
}

// Failed notes that the channel has not accepted something, and that nothing is sent to it for at least a time. It returns when the next attempt is.
func (c *Channel) Failed(err error, wait time.Duration) time.Time {
	deliveries.WithLabelValues(c.t.Name, "failed").Inc()
	pause := max(wait, min(firstSend<<min(c.t.failures, 10), lastChannel))
	c.t.failures, c.t.last, c.t.next = c.t.failures+1, err, c.t.now().Add(pause)
	return c.t.next
}

// Failing reports whether the last attempt failed.
func (c *Channel) Failing() bool { return c.t.last != nil }

// Reached notes that the channel answers, while nothing is to be sent.
func (c *Channel) Reached() {
	c.t.failures, c.t.last, c.t.next, c.t.reached = 0, nil, time.Time{}, true
}

// Impeded notes why what users decide there does not arrive; nil where it does.
func (c *Channel) Impeded(err error) { c.t.impeded = err }

// lastChannel bounds the pause between attempts to reach a channel: users wait for it.
const lastChannel = 30 * time.Second

// Next attempt is not before this time; zero for now.
func (c *Channel) Next() time.Time { return c.t.next }

// Show what waits, in the metrics and the DriftReceiver.
func (c *Channel) Show(ctx context.Context, due []*v1alpha1.Drift) {
	c.t.count(due)
	c.t.show(ctx, due)
}
