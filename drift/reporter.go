package drift

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	// reportCapacity is the number of items that wait to be recorded: each holds two
	// objects, and what is beyond it is dropped, since a request must not wait.
	reportCapacity = 1024
	// recordEvery is how often the count and time of an open drift are written.
	recordEvery = time.Minute
	// maxOccurrences bounds the drifts that are remembered between two writes. Of one that is
	// forgotten, the next occurrence is written at once.
	maxOccurrences = 10_000
	// recordTimeout bounds the writes of one item. The API server may be unavailable, and
	// the items behind it wait.
	recordTimeout = 10 * time.Second
	// firstRetry is the time after which an item is recorded again that could not be; it doubles up to
	// lastRetry. retryFor is for how long: then only the next occurrence is recorded.
	firstRetry = time.Second
	lastRetry  = 15 * time.Second
	retryFor   = 10 * time.Minute
)

// Item to report.
type Item struct {
	Report   *admission.Report
	Old, New *unstructured.Unstructured
	// Fetch returns New if a report is sent; nil if New is set.
	Fetch func(context.Context) *unstructured.Unstructured
	// Request that was refused or logged; nil if there was none, as for external drift.
	Request *v1alpha1.ReportRequest
	// Stored reports, before anything is written, whether the report is about an object that is stored; nil
	// where that is known.
	Stored func(context.Context) (bool, error)

	// at is the time of the occurrence, which may be long before it is recorded.
	at time.Time
	// tries is how often it could not be recorded.
	tries int
}

// Config of a Reporter.
type Config struct {
	// Client reads past every cache, see Client.
	Client client.Client
	Sender *Sender
	Log    logr.Logger
	// Recurred is called when a difference occurs for the first time, or again after it was resolved or
	// its approval was used up, before its report is sent; nil for nothing to do.
	Recurred func(ctx context.Context, p parent.Ref, id string) error
	// Initialized returns the condition types by which a kind counts as initialized; nil, and an empty
	// list, leave it to Initialized and Ready.
	Initialized func(schema.GroupKind) []string
}

// Reporter keeps Drift objects and sends their reports. Creating the Drift, or taking it from Resolved
// to Detected, is the lock by which one replica sends. It is safe for concurrent use.
type Reporter struct {
	Config
	queue *queue[Item]

	mu          sync.Mutex
	occurrences *lru.Cache // of *occurrences, by Item.key
}

// occurrences of a drift since it was last written: when that was, zero for never, and
// how many there were since. Reporter.mu guards both.
type occurrences struct {
	written time.Time
	count   int64
	seen    seen
}

// seen is how a drift was last seen. Where that changes, it is written at once: whether a Drift is over depends on it (KR-05-65).
type seen struct {
	intent    int64
	separated bool
	lacks     string
}

func (i Item) seen() seen { return seen{i.Report.Drift.Intent, i.Report.Separated, i.Report.Lacks} }

// NewReporter returns a Reporter that records nothing until Start.
func NewReporter(c Config) (*Reporter, error) {
	r := &Reporter{Config: c, occurrences: lru.New(maxOccurrences)}
	var err error
	r.queue, err = newQueue("drift-recorder", reportCapacity, c.Log, r.handle)
	return r, err
}

// Start records items and sends reports until the context ends.
func (r *Reporter) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { r.Sender.run(ctx) })
	err := r.queue.Start(ctx)
	wg.Wait()
	return err
}

// NeedLeaderElection is false: every replica reports what it refuses.
func (*Reporter) NeedLeaderElection() bool { return false }

// Enqueue an item to be recorded, unless the same drift was recorded within the last minute: then it is
// only counted. It never blocks.
func (r *Reporter) Enqueue(i Item) {
	if !r.due(i.key(), i.seen()) {
		return
	}
	i.at = clock.Now()
	if !r.queue.add(i) {
		dropped.Inc()
		r.forget(i.key())
	}
	queueLength.Set(float64(r.queue.len()))
}

// key identifies the drift of an item. A refused DELETE that is to be repeated is another one for each
// user: a controller's must not be taken for a user's. Another occurrence of one that was approved is, too:
// until it is recorded, it cannot be approved again.
func (i Item) key() string {
	switch id := i.Report.Drift.ID; {
	case i.Report.Repeat:
		return id + "/" + i.Report.Drift.User
	case i.Report.Recurs:
		return id + keyRecurs
	default:
		return id
	}
}

// keyRecurs ends the key of an occurrence after one that was approved.
const keyRecurs = "/recurs"

// due counts an occurrence and reports whether it is to be written.
func (r *Reporter) due(key string, as seen) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.of(key)
	o.count++
	now := clock.Now()
	if now.Sub(o.written) < recordEvery && o.seen == as {
		return false
	}
	o.written, o.seen = now, as
	return true
}

// of returns what is remembered about a key; the caller holds the lock.
func (r *Reporter) of(key string) *occurrences {
	if have, ok := r.occurrences.Get(key); ok {
		return have.(*occurrences)
	}
	o := &occurrences{}
	r.occurrences.Add(key, o)
	return o
}

// forget a key: its next occurrence is written at once.
func (r *Reporter) forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.occurrences.Remove(key)
}

// takeCount returns the number of occurrences since the last call.
func (r *Reporter) takeCount(key string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.of(key)
	n := o.count
	o.count = 0
	return n
}

// handle an item of the queue. One that cannot be recorded is recorded later, so that the Drift is right
// within a minute whichever write failed (KR-10-11).
func (r *Reporter) handle(ctx context.Context, i Item) error {
	queueLength.Set(float64(r.queue.len()))
	err := errors.New("interrupted") // unless Record returns
	again := false
	defer func() {
		if err != nil && !again {
			r.forget(i.key())
		}
	}()
	if err = r.Record(ctx, i); err == nil {
		return nil
	}
	if again = i.again(err) && ctx.Err() == nil; again {
		i.tries++
		r.queue.later(i, i.wait())
	}
	if i.tries > 1 {
		r.Log.V(1).Info("cannot record drift; it is tried again", "drift", i.Report.Drift.ID, "error", err.Error())
		return nil
	}
	return fmt.Errorf("cannot record drift %s: %w", i.Report.Drift.ID, err)
}

// again reports whether recording an item is tried again after an error: not where the API server will not
// accept it, and not for ever.
func (i Item) again(err error) bool {
	refused := kerrors.IsInvalid(err) || kerrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	return !refused && clock.Since(i.at) < retryFor
}

// landed reports whether a write of this item that failed was stored all the same, as one that timed out may be:
// its report is still to be sent. now is the time of the occurrence.
func (i Item) landed(d *v1alpha1.Drift, now metav1.Time) bool {
	return i.tries > 0 && !d.Status.Notified && d.Status.Since != nil && d.Status.Since.Equal(&now)
}

// wait is the time before an item is recorded again.
func (i Item) wait() time.Duration {
	return min(firstRetry<<min(i.tries-1, 10), lastRetry)
}

// Record an item in its Drift, and send the report if this is a new occurrence, or the
// first one after a snooze (KR-10-04, KR-10-01, KR-05-28).
func (r *Reporter) Record(ctx context.Context, i Item) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if is, err := r.stored(ctx, i); err != nil || !is {
		return err
	}
	d, err := r.createOrGet(ctx, i.Report)
	if err != nil {
		return err
	}
	if i.at.IsZero() {
		i.at = clock.Now()
	}
	now := metav1.NewTime(i.at.UTC().Truncate(time.Second))
	isNew := d.Status.Phase != v1alpha1.DriftDetected
	if (isNew || i.Report.Recurs) && r.Recurred != nil {
		if err := r.Recurred(ctx, i.Report.ParentRef, d.Spec.ID); err != nil {
			return fmt.Errorf("cannot prepare a new occurrence: %w", err)
		}
	}
	before := d.DeepCopy()
	if isNew {
		d.Status = v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Since: &now}
	}
	unreported := (isNew || d.Status.Snoozed || i.landed(d, now)) && !i.Report.Snoozed
	d.Status.Snoozed = (isNew || d.Status.Snoozed) && i.Report.Snoozed
	d.Status.Intent, d.Status.Separated = i.Report.Drift.Intent, i.Report.Separated
	d.Status.Holder, d.Status.Votes, d.Status.Lacks = i.Report.Holder, i.Report.Votes, i.Report.Lacks
	d.Status.Held = heldOf(d.Status.Held, i.Report.Held)
	d.Status.LastSeen, d.Status.Count = &now, d.Status.Count+max(1, r.takeCount(i.key()))
	if i.Report.Repeat {
		d.Status.RepeatFor = i.Report.Drift.User
	}
	err = r.Client.Status().Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if kerrors.IsConflict(err) {
		return r.overtaken(ctx, d, err)
	}
	if err != nil {
		return fmt.Errorf("cannot write drift status: %w", err)
	}
	if unreported {
		if i.Fetch != nil {
			i.New = i.Fetch(ctx)
		}
		r.send(d, detected(i, r.lifecycle(i.Report.Parent)))
	}
	return nil
}

// heldOf a Drift, after what a report has of it; nil for nothing. A freeze, of which a report has nothing, ends none.
func heldOf(before *v1alpha1.HeldDrift, now v1alpha1.HeldDrift) *v1alpha1.HeldDrift {
	if len(now.Drift) == 0 {
		return before
	}
	return &now
}

// overtaken returns nil where another replica has just recorded the same, and the conflict otherwise: the Drift
// of an earlier occurrence was resolved in between.
func (r *Reporter) overtaken(ctx context.Context, d *v1alpha1.Drift, conflict error) error {
	now := &v1alpha1.Drift{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(d), now); err != nil {
		return fmt.Errorf("cannot read drift: %w", err)
	}
	if now.Status.Phase == v1alpha1.DriftDetected {
		return nil
	}
	return fmt.Errorf("cannot write drift status: %w", conflict)
}

// Complete a Drift whose first status was not written, because the process that created it ended, or gave up
// (KR-10-11): it is detected since it was created. The replica that writes that sends the report, without the
// objects. snoozed is whether its parent is now.
func (r *Reporter) Complete(ctx context.Context, d *v1alpha1.Drift, snoozed bool) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	before := d.DeepCopy()
	d = d.DeepCopy()
	if p := d.Spec.Parent; r.Recurred != nil && p.Name != "" {
		ref := parent.Ref{GroupVersionKind: schema.FromAPIVersionAndKind(p.APIVersion, p.Kind), Namespace: p.Namespace, Name: p.Name, UID: p.UID}
		if err := r.Recurred(ctx, ref, d.Spec.ID); err != nil {
			return fmt.Errorf("cannot prepare a new occurrence: %w", err)
		}
	}
	since := d.CreationTimestamp
	d.Status = v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Since: &since, LastSeen: &since, Count: 1, Snoozed: snoozed}
	err := r.Client.Status().Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if kerrors.IsConflict(err) || kerrors.IsNotFound(err) {
		return nil // it is recorded, or gone
	}
	if err != nil {
		return fmt.Errorf("cannot write drift status: %w", err)
	}
	if !snoozed {
		r.send(d, reportOf(d.Spec, v1alpha1.DriftDetected))
	}
	return nil
}

// stored reports whether an item is about an object that is stored (KR-13-22). The next occurrence of one that is not is tried at once.
func (r *Reporter) stored(ctx context.Context, i Item) (bool, error) {
	if i.Stored == nil {
		return true, nil
	}
	is, err := i.Stored(ctx)
	if !is {
		r.forget(i.key())
	}
	return is, err
}

// createOrGet the Drift of a report.
func (r *Reporter) createOrGet(ctx context.Context, report *admission.Report) (*v1alpha1.Drift, error) {
	d := object(report)
	err := r.Client.Create(ctx, d)
	if kerrors.IsAlreadyExists(err) {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return nil, fmt.Errorf("cannot read drift: %w", err)
		}
		return d, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot create drift: %w", err)
	}
	return d, nil
}

// lifecycle phase of a parent; empty for nil.
func (r *Reporter) lifecycle(p *parent.State) v1alpha1.Phase {
	if p == nil {
		return ""
	}
	var conditions []string
	if r.Initialized != nil {
		conditions = r.Initialized(p.GroupKind())
	}
	return p.Phase(p.SettledGeneration() > 0, conditions...)
}

// send a report, and mark the Drift as notified once an endpoint has accepted it (KR-10-04).
func (r *Reporter) send(d *v1alpha1.Drift, out v1alpha1.DriftReport) {
	key, phase := client.ObjectKeyFromObject(d), d.Status.Phase
	r.Sender.Send(out, func() {
		ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
		defer cancel()
		raw := fmt.Appendf(nil, `{"status":{"phase":%q,"notified":true}}`, phase)
		o := &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		if err := r.Client.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, raw)); client.IgnoreNotFound(err) != nil {
			r.Log.Error(err, "cannot mark drift as notified", "drift", key)
		}
	})
}

// Resolve a drift, once: the replica that takes it from Detected to Resolved sends the report, unless the
// drift was never reported. why is a clause for users.
func (r *Reporter) Resolve(ctx context.Context, d *v1alpha1.Drift, why string) error {
	if d.Status.Phase == v1alpha1.DriftResolved {
		return nil
	}
	r.forget(d.Spec.ID)
	r.forget(d.Spec.ID + keyRecurs)
	if d.Status.RepeatFor != "" {
		r.forget(d.Spec.ID + "/" + d.Status.RepeatFor)
	}
	before := d.DeepCopy()
	d = d.DeepCopy()
	unrecorded := d.Status.Phase == "" // its first status was not written (KR-10-11)
	d.Status.Phase, d.Status.Resolution, d.Status.Notified = v1alpha1.DriftResolved, why, false
	err := r.Client.Status().Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if kerrors.IsConflict(err) || kerrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot resolve drift: %w", err)
	}
	if !d.Status.Snoozed && !unrecorded { // else no endpoint knows of it
		r.send(d, resolved(d, why))
	}
	return nil
}
