package drift

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	// deliverEvery is the time between two looks at what is owed.
	deliverEvery = time.Second
	// firstSend is how long a destination is left alone after a failure; it doubles up to lastSend (KR-10-14).
	firstSend = time.Second
	lastSend  = 5 * time.Minute
	// firstRefused and lastRefused are the same for one report that a destination refuses.
	firstRefused = 10 * time.Second
	lastRefused  = 10 * time.Minute
	// maxWaiting is the number of Drifts of one round which are marked as waiting for a destination that fails.
	maxWaiting = 20
	// maxMessage of a failure, in bytes.
	maxMessage = 256
)

// Deliverer sends the reports that Drifts are owed, at least once, whatever happened to the process that recorded them: what
// a destination knows is in the status of the Drift (KR-10-14). It runs on the leader. Each destination is served by itself:
// one that is slow or away delays no other.
type Deliverer struct {
	// Drifts lists them from a cache; Client reads past it, and writes.
	Drifts client.Reader
	Client client.Client
	// Mine are the Drifts whose reports this process sends; nil for all.
	Mine   func(*v1alpha1.Drift) bool
	Author func(context.Context, *v1alpha1.Drift, v1alpha1.DriftPhase) v1alpha1.DriftReport
	Events events.EventRecorder
	Log    logr.Logger

	senders []*Sender
}

// AddDeliverer of reports to a manager. component is who emits its events.
func AddDeliverer(mgr manager.Manager, r *Reporter, senders []*Sender, a *Author, component string, mine func(*v1alpha1.Drift) bool) error {
	if len(senders) == 0 {
		return nil
	}
	return mgr.Add(&Deliverer{
		Drifts: mgr.GetClient(), Client: r.Client, Mine: mine, Author: a.Write, Events: mgr.GetEventRecorder(component), Log: r.Log, senders: senders,
	})
}

// NeedLeaderElection is true: one replica sends.
func (*Deliverer) NeedLeaderElection() bool { return true }

// Start delivers until the context ends.
func (d *Deliverer) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, s := range d.senders {
		to := d.destination(s)
		wg.Go(func() { to.run(ctx) })
	}
	wg.Wait()
	return nil
}

// destination with what this process knows of it beside the Drifts. One goroutine uses it.
type destination struct {
	*Deliverer
	*Sender
	log logr.Logger
	// failures in a row, why the last one, and until when it is left alone.
	failures int
	last     error
	next     time.Time
	// refused reports by their Drift.
	refused map[types.UID]refusal
	// accepted reports by their Drift, where that is not written yet.
	accepted map[types.UID]string
}

// refusal of a report.
type refusal struct {
	report string
	times  int
	next   time.Time
}

func (d *Deliverer) destination(s *Sender) *destination {
	return &destination{Deliverer: d, Sender: s, log: d.Log.WithValues("destination", s.Name),
		refused: map[types.UID]refusal{}, accepted: map[types.UID]string{}}
}

// run rounds until the context ends.
func (t *destination) run(ctx context.Context) {
	tick := time.NewTicker(deliverEvery)
	defer tick.Stop()
	defer t.count(nil)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := recovered(func() error { return t.round(ctx) }); err != nil && ctx.Err() == nil {
				t.log.Error(err, "cannot deliver drift reports")
			}
		}
	}
}

// round over the Drifts that the destination is to be sent, the oldest occurrence first.
func (t *destination) round(ctx context.Context) error {
	list := &v1alpha1.DriftList{}
	if err := t.Drifts.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil { // the items are the cache's, and only read
		return fmt.Errorf("cannot list drifts: %w", err)
	}
	due := t.due(list)
	t.count(due)
	t.forget(due)
	marked := 0
	for _, o := range due {
		if err := ctx.Err(); err != nil {
			return err
		}
		if clock.Now().Before(t.next) {
			if marked++; marked > maxWaiting {
				return nil
			}
			t.wait(ctx, o)
			continue
		}
		err := recovered(func() error { return t.deliver(ctx, o) })
		if err != nil && ctx.Err() == nil {
			t.log.Error(err, "cannot deliver a drift report; it is tried again", "drift", client.ObjectKeyFromObject(o))
		}
	}
	return nil
}

// due Drifts of a list.
func (t *destination) due(list *v1alpha1.DriftList) (out []*v1alpha1.Drift) {
	for i := range list.Items {
		if o := &list.Items[i]; (t.Mine == nil || t.Mine(o)) && len(owed(&o.Status, t.Name)) > 0 {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.Drift) int {
		return cmp.Or(a.Status.Since.Compare(b.Status.Since.Time), strings.Compare(a.Name, b.Name))
	})
	return out
}

// count what waits.
func (t *destination) count(due []*v1alpha1.Drift) {
	reportsPending.WithLabelValues(t.Name).Set(float64(len(due)))
	age := 0.0
	if len(due) > 0 {
		age = max(0, clock.Since(due[0].Status.Since.Time).Seconds())
	}
	oldestPending.WithLabelValues(t.Name).Set(age)
}

// forget what is known of Drifts that are not due any more.
func (t *destination) forget(due []*v1alpha1.Drift) {
	if len(t.refused) == 0 && len(t.accepted) == 0 {
		return
	}
	known := make(map[types.UID]bool, len(due))
	for _, o := range due {
		known[o.UID] = true
	}
	for uid := range t.refused {
		if !known[uid] {
			delete(t.refused, uid)
		}
	}
	for uid := range t.accepted {
		if !known[uid] {
			delete(t.accepted, uid)
		}
	}
}

// deliver what a Drift owes the destination, by what is stored now. An error is one of the API server; those of the
// destination are in the Drift.
func (t *destination) deliver(ctx context.Context, cached *v1alpha1.Drift) error {
	if r := t.refused[cached.UID]; clock.Now().Before(r.next) {
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
				return err // it was interrupted: that is no failure of the destination
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
func (t *destination) note(d *v1alpha1.Drift, report string, failed error) {
	refused := (*refusedError)(nil)
	switch {
	case failed == nil:
		deliveries.WithLabelValues(t.Name, "delivered").Inc()
		t.failures, t.last, t.next = 0, nil, time.Time{}
		t.accepted[d.UID] = report
		delete(t.refused, d.UID)
	case errors.As(failed, &refused):
		deliveries.WithLabelValues(t.Name, "refused").Inc()
		t.failures, t.last, t.next = 0, nil, time.Time{} // it answers
		r := t.refused[d.UID]
		if r.report != report {
			r = refusal{report: report}
		}
		r.next = clock.Now().Add(min(firstRefused<<min(r.times, 10), lastRefused))
		r.times++
		t.refused[d.UID] = r
	default:
		deliveries.WithLabelValues(t.Name, "failed").Inc()
		t.next = clock.Now().Add(min(firstSend<<min(t.failures, 10), lastSend))
		t.failures, t.last = t.failures+1, failed
		if t.failures == 1 {
			t.log.Info("a destination of drift reports fails; it is tried again", "error", failed.Error())
		}
	}
}

// record the outcome of an attempt in the Drift (KR-10-16).
func (t *destination) record(ctx context.Context, d *v1alpha1.Drift, phase v1alpha1.DriftPhase, failed error) error {
	again := ""
	err := t.write(ctx, d, func(e *v1alpha1.DriftDelivery) bool {
		now := metav1.NewTime(clock.Now().UTC().Truncate(time.Second))
		if again = e.Message; failed == nil {
			e.Phase, e.ReportedAt, e.Attempts, e.LastAttempt, e.Message = phase, &now, 0, nil, ""
			return true
		}
		e.Attempts, e.LastAttempt, e.Message = e.Attempts+1, &now, annotation.Cut(failed.Error(), maxMessage)
		return true
	})
	switch {
	case err != nil:
	case failed != nil && again == "":
		t.emit(d, corev1.EventTypeWarning, "ReportFailed", fmt.Sprintf("Cannot deliver the report that it is %s to %s: %s. It is tried again until it is delivered.",
			phase, t.Name, failed))
	case failed == nil && again != "":
		t.emit(d, corev1.EventTypeNormal, "ReportDelivered", fmt.Sprintf("The report that it is %s was delivered to %s.", phase, t.Name))
	}
	return err
}

// wait marks a Drift whose report waits for a destination that fails, once.
func (t *destination) wait(ctx context.Context, cached *v1alpha1.Drift) {
	if e := deliveryTo(&cached.Status, t.Name); e != nil && e.Message != "" || t.last == nil {
		return
	}
	now := &v1alpha1.Drift{}
	err := t.Client.Get(ctx, client.ObjectKeyFromObject(cached), now)
	if err == nil && len(owed(&now.Status, t.Name)) > 0 {
		err = t.write(ctx, now, func(e *v1alpha1.DriftDelivery) bool {
			if e.Message != "" {
				return false
			}
			e.Message = annotation.Cut(t.last.Error(), maxMessage)
			return true
		})
	}
	if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
		t.log.V(1).Info("cannot mark a drift whose report waits", "drift", client.ObjectKeyFromObject(cached), "error", err.Error())
	}
}

// write the entry of this destination in the status of a Drift, which was just read, unless its occurrence is another one now.
// edit reports whether it changed the entry.
func (t *destination) write(ctx context.Context, d *v1alpha1.Drift, edit func(*v1alpha1.DriftDelivery) bool) error {
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
			d.Status.Reports = slices.DeleteFunc(d.Status.Reports, func(e v1alpha1.DriftDelivery) bool { return e.Destination == t.Name })
			d.Status.Reports = append(d.Status.Reports, v1alpha1.DriftDelivery{Destination: t.Name, Since: since})
			e = &d.Status.Reports[len(d.Status.Reports)-1]
		}
		if !edit(e) {
			return nil
		}
		d.Status.Reports = slices.DeleteFunc(d.Status.Reports, func(e v1alpha1.DriftDelivery) bool { return !slices.Contains(Names(t.senders), e.Destination) })
		meta.SetStatusCondition(&d.Status.Conditions, reportedCondition(d))
		return t.Client.Status().Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	if kerrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot write what a destination knows: %w", err)
	}
	return nil
}

// reportedCondition of a Drift (KR-10-16).
func reportedCondition(d *v1alpha1.Drift) metav1.Condition {
	out := metav1.Condition{Type: v1alpha1.ConditionReported}
	var failed, waiting []string
	for _, e := range d.Status.Reports {
		switch {
		case e.Message != "":
			failed = append(failed, e.Destination+": "+e.Message)
		case len(owed(&d.Status, e.Destination)) > 0:
			waiting = append(waiting, e.Destination)
		}
	}
	switch {
	case len(failed) > 0:
		out.Status, out.Reason = metav1.ConditionFalse, v1alpha1.ReasonDeliveryFailed
		out.Message = "The report is not delivered; it is tried again until it is. " + strings.Join(failed, "; ")
	case len(waiting) > 0:
		out.Status, out.Reason = metav1.ConditionFalse, v1alpha1.ReasonDeliveryPending
		out.Message = "The report is to be sent to " + strings.Join(waiting, ", ") + "."
	default:
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, v1alpha1.ReasonDelivered, "All destinations know that it is "+string(d.Status.Phase)+"."
	}
	return out
}

// emit an event about a Drift.
func (t *destination) emit(d *v1alpha1.Drift, kind, reason, text string) {
	if t.Events == nil {
		return
	}
	about := &corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Drift", Namespace: d.Namespace, Name: d.Name, UID: d.UID,
		ResourceVersion: d.ResourceVersion}
	t.Events.Eventf(about, nil, kind, reason, reason, "%s", text)
}
