package drift

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	// showEvery is how often a DriftReceiver is written while its condition does not change.
	showEvery = time.Minute
	// showTimeout bounds that: reports must not wait for it.
	showTimeout = 5 * time.Second
	// maxHost of a receiver in the name of its DriftReceiver, in bytes.
	maxHost = 200
)

// receiver with what this process knows of it beside the Drifts. One goroutine uses it.
type receiver struct {
	*Deliverer
	*Sender
	now func() time.Time
	// failures in a row, why the last one, and until when it is left alone.
	failures int
	last     error
	next     time.Time
	// delivered is when it accepted a report last; zero for not by this process.
	delivered time.Time
	// reached: it answered this process, also where nothing was to be sent. impeded is why what users decide there does not arrive; nil where it does.
	reached bool
	impeded error
	// attempts that failed, by their Drift.
	attempts map[types.UID]attempt
	// accepted reports by their Drift, where that is not written yet.
	accepted map[types.UID]string

	// shown is its DriftReceiver as it was written at a time; nil where it is to be read.
	shown   *v1alpha1.DriftReceiver
	shownAt time.Time
}

// attempts to send a report, all of which failed.
type attempt struct {
	report string
	of     types.NamespacedName
	// since is when the first failed.
	since time.Time
	times int
	// why the last one failed, and when the next one is.
	why  error
	next time.Time
	// own: it is the report that is not accepted, others are.
	own bool
}

// receiver of a sender.
func (d *Deliverer) receiver(s *Sender) *receiver {
	return &receiver{Deliverer: d, Sender: s, now: clock.Now, attempts: map[types.UID]attempt{}, accepted: map[types.UID]string{}}
}

// objectName of the DriftReceiver of a receiver that a component sends to.
func objectName(component, receiver string) string {
	host, hash, hashed := strings.Cut(receiver, "/")
	host = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(host))
	out := component + "-" + host[:min(len(host), maxHost)]
	if hashed {
		out += "-" + hash
	}
	return out
}

// show in the DriftReceiver whether reports arrive: at once where its condition changes, else now and then (KR-10-16).
func (t *receiver) show(ctx context.Context, due []*v1alpha1.Drift) {
	now := t.now()
	if t.shown == nil && now.Sub(t.shownAt) < showEvery { // it could not be written a moment ago
		return
	}
	bounded, cancel := context.WithTimeout(ctx, showTimeout)
	defer cancel()
	if err := t.shows(bounded, now, due); err != nil && ctx.Err() == nil {
		t.shown, t.shownAt = nil, now
		t.Log.Info("cannot write whether drift reports arrive; it is tried again", "receiver", t.Name, "error", err.Error())
	}
}

// shows is show at a time.
func (t *receiver) shows(ctx context.Context, now time.Time, due []*v1alpha1.Drift) error {
	if t.shown == nil {
		if err := t.read(ctx); err != nil {
			return err
		}
	}
	had := meta.FindStatusCondition(t.shown.DeepCopy().Status.Conditions, v1alpha1.ConditionReady)
	ready := t.ready(had)
	same := had != nil && had.Status == ready.Status && had.Reason == ready.Reason && had.Message == ready.Message
	if same && now.Sub(t.shownAt) < showEvery {
		return nil
	}
	t.shownAt = now
	before := t.shown.DeepCopy()
	s := &t.shown.Status
	s.Pending, s.OldestPending, s.NextAttempt = int64(len(due)), oldest(due), nil
	if now.Before(t.next) {
		s.NextAttempt = seconds(t.next)
	}
	if !t.delivered.IsZero() {
		s.LastDelivered = seconds(t.delivered)
	}
	meta.SetStatusCondition(&s.Conditions, ready)
	if err := t.Client.Status().Patch(ctx, t.shown, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("cannot write the status of a DriftReceiver: %w", err)
	}
	t.announce(had, ready)
	return nil
}

// read the DriftReceiver, or create it.
func (t *receiver) read(ctx context.Context) error {
	o := &v1alpha1.DriftReceiver{ObjectMeta: metav1.ObjectMeta{Name: objectName(t.Component, t.Name)},
		Spec: v1alpha1.DriftReceiverSpec{Component: t.Component, Receiver: t.Name}}
	err := t.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
	if kerrors.IsNotFound(err) {
		err = t.Client.Create(ctx, o)
	}
	if err != nil {
		return fmt.Errorf("cannot read or create a DriftReceiver: %w", err)
	}
	t.shown, t.shownAt = o, time.Time{}
	return nil
}

// ready condition of the receiver after another one; nil for none.
func (t *receiver) ready(had *metav1.Condition) metav1.Condition {
	out := metav1.Condition{Type: v1alpha1.ConditionReady}
	set := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		out.Status, out.Reason, out.Message = status, reason, message
		return out
	}
	refused, first := 0, attempt{}
	for _, r := range t.attempts {
		if !r.own {
			continue
		}
		if refused++; refused == 1 || r.of.String() < first.of.String() {
			first = r
		}
	}
	switch {
	case t.last != nil:
		return set(metav1.ConditionFalse, v1alpha1.ReasonDeliveryFailed,
			"The last report could not be delivered; it is tried again until it is: "+annotation.Cut(t.last.Error(), maxMessage))
	case refused > 0:
		return set(metav1.ConditionFalse, v1alpha1.ReasonDeliveryRefused, fmt.Sprintf(
			"It accepts reports, but not those of %d Drifts, which are repeated; that of %s: %s", refused, first.of, annotation.Cut(first.why.Error(), maxMessage)))
	case t.impeded != nil:
		return set(metav1.ConditionFalse, v1alpha1.ReasonDecisionsNotReceived,
			"What users decide there is not received; it is tried again: "+annotation.Cut(t.impeded.Error(), maxMessage))
	case !t.delivered.IsZero(), had != nil && had.Reason == v1alpha1.ReasonDeliveryRefused:
		return set(metav1.ConditionTrue, v1alpha1.ReasonDelivered, "It accepted the last report.")
	case t.reached && had != nil && had.Status == metav1.ConditionFalse:
		return set(metav1.ConditionTrue, v1alpha1.ReasonDelivered, "It answers again.")
	case had != nil:
		return *had // of the process before
	}
	return set(metav1.ConditionUnknown, v1alpha1.ReasonDeliveryNone, "Nothing was sent so far; kausality notify test sends a report.")
}

// announce a condition that is not the one before, by an event.
func (t *receiver) announce(had *metav1.Condition, now metav1.Condition) {
	switch {
	case had != nil && had.Status == now.Status && had.Reason == now.Reason:
	case now.Status == metav1.ConditionFalse:
		t.emit(t.shown, corev1.EventTypeWarning, "ReportFailed", t.Name+": "+now.Message)
	case now.Status == metav1.ConditionTrue && had != nil && had.Status == metav1.ConditionFalse:
		t.emit(t.shown, corev1.EventTypeNormal, "ReportDelivered", "Reports are delivered to "+t.Name+" again.")
	}
}

// emit an event about a DriftReceiver.
func (d *Deliverer) emit(o *v1alpha1.DriftReceiver, kind, reason, text string) {
	if d.Events == nil {
		return
	}
	about := &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "DriftReceiver", Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
	}
	d.Events.Eventf(about, nil, kind, reason, reason, "%s", text)
}

// clean up the DriftReceivers of this component that are not configured any more.
func (d *Deliverer) clean(ctx context.Context) error {
	list := &v1alpha1.DriftReceiverList{}
	if err := d.Client.List(ctx, list); err != nil {
		return fmt.Errorf("cannot list DriftReceivers: %w", err)
	}
	configured := map[string]bool{}
	for _, s := range d.senders {
		configured[objectName(d.Component, s.Name)] = true
	}
	for i := range list.Items {
		o := &list.Items[i]
		if o.Spec.Component != d.Component || configured[o.Name] {
			continue
		}
		if err := d.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("cannot delete DriftReceiver %s: %w", o.Name, err)
		}
	}
	return nil
}

// seconds returns a time as objects have it.
func seconds(at time.Time) *metav1.Time {
	return new(metav1.NewTime(at.UTC().Truncate(time.Second)))
}
