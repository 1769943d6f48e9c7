package drift

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	// deliverEvery is the time between two looks at what is owed.
	deliverEvery = time.Second
	// firstSend is how long a receiver is left alone after a failure; it doubles up to lastSend (KR-10-14).
	firstSend = time.Second
	lastSend  = 5 * time.Minute
	// firstRefused and lastRefused are the same for one report that a receiver does not accept, while it accepts others.
	firstRefused = 10 * time.Second
	lastRefused  = 10 * time.Minute
	// maxMessage of a failure, in bytes.
	maxMessage = 256
)

// Deliverer sends the reports that Drifts are owed, at least once, whatever happened to the process that recorded them: what
// a receiver knows is in the status of the Drift (KR-10-14). It runs on the leader. Each receiver is served by itself:
// one that is slow or away delays no other.
type Deliverer struct {
	// Drifts lists them from a cache; Client reads past it, and writes.
	Drifts client.Reader
	Client client.Client
	// Cache of Drifts.
	Cache cache.Cache
	// Objects that Drifts are about.
	Objects Objects
	// Mine are the Drifts whose reports this process sends; nil for all.
	Mine   func(*v1alpha1.Drift) bool
	Author func(context.Context, *v1alpha1.Drift, v1alpha1.DriftPhase) v1alpha1.DriftReport
	// Component that sends, which names its DriftReceivers.
	Component string
	Events    events.EventRecorder
	Log       logr.Logger

	senders []*Sender
}

// AddDeliverer of reports to a manager. component is who emits its events.
func AddDeliverer(mgr manager.Manager, r *Reporter, senders []*Sender, a *Author, component string, mine func(*v1alpha1.Drift) bool) error {
	return mgr.Add(&Deliverer{
		Drifts: mgr.GetClient(), Client: r.Client, Cache: mgr.GetCache(), Objects: a.Objects, Mine: mine,
		Author: a.Write, Component: component, Events: mgr.GetEventRecorder(component), Log: r.Log, senders: senders,
	})
}

// NeedLeaderElection is true: one replica sends.
func (*Deliverer) NeedLeaderElection() bool { return true }

// Start delivers until the context ends.
func (d *Deliverer) Start(ctx context.Context) error {
	if err := d.clean(ctx); err != nil && ctx.Err() == nil {
		d.Log.Error(err, "cannot clean up DriftReceivers; the next leader does")
	}
	var wg sync.WaitGroup
	if len(d.senders) > 0 {
		wg.Go(func() {
			if err := d.succeed(ctx); err != nil && ctx.Err() == nil {
				d.Log.Error(err, "cannot follow Drifts that are deleted; reports of them may be lost")
			}
		})
	}
	for _, s := range d.senders {
		to := d.receiver(s)
		wg.Go(func() { to.run(ctx) })
	}
	wg.Wait()
	return nil
}

// run rounds until the context ends.
func (t *receiver) run(ctx context.Context) {
	defer t.count(nil)
	_ = wait.PollUntilContextCancel(ctx, deliverEvery, false, func(ctx context.Context) (bool, error) { // it ends with the context alone
		if err := recovered(func() error { return t.round(ctx) }); err != nil && ctx.Err() == nil {
			t.Log.Error(err, "cannot deliver drift reports")
		}
		return false, nil
	})
}

// round over the Drifts that the receiver is to be sent: those that failed least, and of these the oldest, come first. So a report that fails
// for ever delays no other.
func (t *receiver) round(ctx context.Context) error {
	list := &v1alpha1.DriftList{}
	if err := t.Drifts.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil { // the items are the cache's, and only read
		return fmt.Errorf("cannot list drifts: %w", err)
	}
	due := t.due(list)
	t.count(due)
	t.forget(due)
	for _, o := range due {
		if err := ctx.Err(); err != nil {
			return err
		}
		if t.now().Before(t.next) {
			break
		}
		err := recovered(func() error { return t.deliver(ctx, o) })
		if err != nil && ctx.Err() == nil {
			t.Log.Error(err, "cannot deliver a drift report; it is tried again", "drift", client.ObjectKeyFromObject(o))
		}
		t.show(ctx, due)
	}
	t.show(ctx, due)
	return nil
}

// due Drifts of a list.
func (t *receiver) due(list *v1alpha1.DriftList) (out []*v1alpha1.Drift) {
	for i := range list.Items {
		if o := &list.Items[i]; (t.Mine == nil || t.Mine(o)) && len(owed(&o.Status, t.Name)) > 0 {
			out = append(out, o)
		}
	}
	failed := func(d *v1alpha1.Drift) int { return t.attempts[d.UID].times }
	slices.SortFunc(out, func(a, b *v1alpha1.Drift) int {
		return cmp.Or(failed(a)-failed(b), a.Status.Since.Compare(b.Status.Since.Time), strings.Compare(a.Name, b.Name))
	})
	return out
}

// oldest returns when the oldest occurrence of the due Drifts began; nil for none.
func oldest(due []*v1alpha1.Drift) (since *metav1.Time) {
	for _, o := range due {
		if since == nil || o.Status.Since.Before(since) {
			since = o.Status.Since
		}
	}
	return since
}

// count what waits.
func (t *receiver) count(due []*v1alpha1.Drift) {
	reportsPending.WithLabelValues(t.Name).Set(float64(len(due)))
	age := 0.0
	if since := oldest(due); since != nil {
		age = max(0, t.now().Sub(since.Time).Seconds())
	}
	oldestPending.WithLabelValues(t.Name).Set(age)
}

// forget what is known of Drifts that are not due any more.
func (t *receiver) forget(due []*v1alpha1.Drift) {
	if len(t.attempts) == 0 && len(t.accepted) == 0 {
		return
	}
	known := make(map[types.UID]bool, len(due))
	for _, o := range due {
		known[o.UID] = true
	}
	maps.DeleteFunc(t.attempts, func(uid types.UID, _ attempt) bool { return !known[uid] })
	maps.DeleteFunc(t.accepted, func(uid types.UID, _ string) bool { return !known[uid] })
}

// deliver what a Drift owes the receiver, as it is stored now. It returns errors of the API server; errors of the
// receiver are recorded in the Drift.
func (t *receiver) deliver(ctx context.Context, cached *v1alpha1.Drift) error {
	if r := t.attempts[cached.UID]; t.now().Before(r.next) {
		return nil
	}
	now := &v1alpha1.Drift{}
	if err := t.Client.Get(ctx, client.ObjectKeyFromObject(cached), now); err != nil {
		return client.IgnoreNotFound(err)
	}
	for _, phase := range owed(&now.Status, t.Name) {
		id := reportID(now, phase)
		var failed error
		if t.accepted[now.UID] != id {
			failed = t.Send(ctx, t.Author(ctx, now, phase))
			if err := ctx.Err(); err != nil {
				return err // it was interrupted: that is no failure of the receiver
			}
			t.note(now, id, failed)
		}
		if err := t.record(ctx, now, phase, failed); err != nil || failed != nil {
			return err
		}
	}
	return nil
}

// note the outcome of an attempt, and when there may be another.
func (t *receiver) note(d *v1alpha1.Drift, report string, failed error) {
	now := t.now()
	if failed == nil {
		deliveries.WithLabelValues(t.Name, "delivered").Inc()
		t.failures, t.last, t.next, t.delivered = 0, nil, time.Time{}, now
		t.accepted[d.UID] = report
		delete(t.attempts, d.UID)
		return
	}
	r := t.attempts[d.UID]
	if r.report != report {
		r = attempt{report: report, of: client.ObjectKeyFromObject(d), since: now}
	}
	refused := (*refusedError)(nil)
	result := "failed"
	if errors.As(failed, &refused) {
		result = "refused"
	}
	deliveries.WithLabelValues(t.Name, result).Inc()
	if r.own = refused != nil || t.delivered.After(r.since); r.own {
		t.failures, t.last, t.next = 0, nil, time.Time{}
		r.next = now.Add(min(firstRefused<<min(r.times, 10), lastRefused))
	} else {
		t.next = now.Add(min(firstSend<<min(t.failures, 10), lastSend))
		t.failures, t.last = t.failures+1, failed
	}
	r.times, r.why = r.times+1, failed
	t.attempts[d.UID] = r
}

// record the outcome of an attempt in the Drift (KR-10-16).
func (t *receiver) record(ctx context.Context, d *v1alpha1.Drift, phase v1alpha1.DriftPhase, failed error) error {
	return t.write(ctx, d, func(e *v1alpha1.DriftDelivery) {
		now := metav1.NewTime(t.now().UTC().Truncate(time.Second))
		if failed == nil {
			*e = v1alpha1.DriftDelivery{Receiver: e.Receiver, Since: e.Since, Phase: phase, ReportedAt: &now}
			return
		}
		next := t.next
		if r := t.attempts[d.UID]; r.next.After(next) {
			next = r.next
		}
		e.Attempts, e.LastAttempt, e.NextAttempt, e.Message = e.Attempts+1, &now, seconds(next), annotation.Cut(failed.Error(), maxMessage)
	})
}

// write the entry of this receiver in the status of a Drift, which was just read, unless its occurrence is another one now.
func (t *receiver) write(ctx context.Context, d *v1alpha1.Drift, edit func(*v1alpha1.DriftDelivery)) error {
	key, uid, since := client.ObjectKeyFromObject(d), d.UID, d.Status.Since
	first := true
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if !first {
			if err := t.Client.Get(ctx, key, d); err != nil {
				return err
			}
		}
		first = false
		if d.UID != uid || !since.Equal(d.Status.Since) {
			return nil
		}
		before := d.DeepCopy()
		e := deliveryTo(&d.Status, t.Name)
		if e == nil {
			d.Status.Deliveries = slices.DeleteFunc(d.Status.Deliveries, func(e v1alpha1.DriftDelivery) bool { return e.Receiver == t.Name })
			d.Status.Deliveries = append(d.Status.Deliveries, v1alpha1.DriftDelivery{Receiver: t.Name, Since: since})
			e = &d.Status.Deliveries[len(d.Status.Deliveries)-1]
		}
		edit(e)
		d.Status.Deliveries = slices.DeleteFunc(d.Status.Deliveries, t.dropped)
		return t.Client.Status().Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	if kerrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot write what a receiver knows: %w", err)
	}
	return nil
}

// dropped reports whether the receiver of an entry is not configured any more. A channel is configured elsewhere, and keeps the entries of others.
func (t *receiver) dropped(e v1alpha1.DriftDelivery) bool {
	return !isChannel(e.Receiver) && !isChannel(t.Name) && !slices.Contains(Names(t.senders), e.Receiver)
}
