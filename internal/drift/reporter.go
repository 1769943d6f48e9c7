package drift

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/records"
)

const (
	// reportCapacity is the number of items that wait to be recorded: each holds two
	// objects, and what is beyond it is dropped, since a request must not wait.
	reportCapacity = 1024
	// recorders is the number of Drifts that are written at once: a controller that was upgraded is refused many
	// changes in a second, and each takes up to four requests.
	recorders = 8
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
	// maxConflicts is how many writes of one item may conflict before it is recorded again later.
	maxConflicts = 5
)

// Item to report.
type Item struct {
	Report *admission.Report
	// Request that was refused or logged; nil if there was none, as for external drift.
	Request *v1alpha1.ReportRequest
	// Stored reports, before anything is written, whether the report is about an object that is stored; nil
	// where that is known.
	Stored func(context.Context) (bool, error)
	// Logged: the change passed, since the mode is log.
	Logged bool

	// at is the time of the occurrence, which may be long before it is recorded.
	at time.Time
	// tries is how often it could not be recorded.
	tries int
}

// Config of a Reporter.
type Config struct {
	// Client reads past every cache, see Client.
	Client client.Client
	// Receivers to which reports are owed, by their names; empty for none.
	Receivers []string
	Log       logr.Logger
	// Events about what changes; nil for none.
	Events events.EventRecorder
	// Records of drifts that begin and that are over; nil where none are kept.
	Records *records.Recorder
	// Recurred is called when a difference occurs for the first time, or again after it was resolved or
	// its approval was used up, before its report is sent; nil for nothing to do.
	Recurred func(ctx context.Context, p parent.Ref, id string) error
	// Approved is called for each object on which a difference may be approved, before its Drift is resolved since it was approved; nil for
	// nothing to do.
	Approved func(ctx context.Context, p parent.Ref, id string) error
}

// Reporter keeps Drift objects. The write that begins an occurrence names the receivers to which its report
// is owed, so that the Deliverer sends it whatever happens to this process (KR-10-14). It is safe for concurrent use.
type Reporter struct {
	Config
	queue *queue[Item]

	mu          sync.Mutex
	occurrences *lru.Cache // of *occurrences, by Item.key
}

// NewReporter returns a Reporter that records nothing until Start.
func NewReporter(c Config) (*Reporter, error) {
	r := &Reporter{Config: c, occurrences: lru.New(maxOccurrences)}
	var err error
	r.queue, err = newQueue("drift-recorder", reportCapacity, recorders, c.Log, r.handle)
	return r, err
}

// ReporterOf a process, which writes Drifts with a client of its own, past the cache: two replicas may report the same drift at once. component is
// who emits its events and writes approvals.
func ReporterOf(mgr manager.Manager, parents Parents, senders []*Sender, component string, kept *records.Recorder, log logr.Logger) (*Reporter, error) {
	direct, err := Client(mgr)
	if err != nil {
		return nil, err
	}
	return NewReporter(Config{
		Client: direct, Receivers: Names(senders), Log: log, Records: kept, Events: mgr.GetEventRecorder(component),
		Recurred: ForgetUsedApprovals(parents, component), Approved: EndLeftoverApprovals(parents, component),
	})
}

// Start records items until the context ends.
func (r *Reporter) Start(ctx context.Context) error { return r.queue.Start(ctx) }

// NeedLeaderElection is false: every replica reports what it refuses.
func (*Reporter) NeedLeaderElection() bool { return false }

// Enqueue an item to be recorded, unless the same drift was recorded within the last minute: then it is
// only counted. It never blocks.
func (r *Reporter) Enqueue(i Item) {
	if !r.due(i.key(), i.seen()) {
		return
	}
	i.at = clock.Now()
	if !r.queue.add(i.Report.Drift.ID, i) {
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
	case i.Report.Requester != "": // each of them is recorded
		return id + "/" + i.Report.Requester
	case i.Report.Recurs:
		return id + keyRecurs
	default:
		return id
	}
}

// keyRecurs ends the key of an occurrence after one that was approved.
const keyRecurs = "/recurs"

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
		r.queue.later(i.Report.Drift.ID, i, i.wait())
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

// wait returns the time before an item is recorded again.
func (i Item) wait() time.Duration {
	return min(firstRetry<<min(i.tries-1, 10), lastRetry)
}

// Record an item in its Drift. Its report is owed from then on if this is a new occurrence, or the
// first one after a snooze (KR-10-04, KR-10-01, KR-05-28).
func (r *Reporter) Record(ctx context.Context, i Item) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if is, err := r.stored(ctx, i); err != nil || !is {
		return err
	}
	if i.at.IsZero() {
		i.at = clock.Now()
	}
	count := max(1, r.takeCount(i.key()))
	for try := 1; ; try++ { // the Deliverer writes the same status, and so do other replicas
		err := r.record(ctx, i, count)
		if !kerrors.IsConflict(err) || try == maxConflicts {
			return err
		}
	}
}

// record count occurrences of an item in its Drift as it is now.
func (r *Reporter) record(ctx context.Context, i Item, count int64) error {
	d, err := r.createOrGet(ctx, i)
	if err != nil {
		return err
	}
	if had := d.Spec.Digest; had != "" && i.Report.Drift.Digest != "" && had != i.Report.Drift.Digest {
		r.Log.Info("cannot report a difference: its Drift is about another one with the same id", "drift", d.Name, "reported", had,
			"refused", i.Report.Drift.Digest)
		return nil
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
		d.Status = r.begun(&now)
	}
	d.Status.Snoozed = (isNew || d.Status.Snoozed) && i.Report.Snoozed
	noteSeen(&d.Status, i.Report, &now)
	d.Status.Holder, d.Status.Votes, d.Status.Lacks = i.Report.Holder, i.Report.Votes, i.Report.Lacks
	d.Status.Held = heldOf(d.Status.Held, i.Report.Held)
	d.Status.Count += count
	if i.Report.Repeat {
		d.Status.RepeatFor = i.Report.Drift.User
	}
	d.Status.Requesters = requestersOf(d.Status.Requesters, i.Report.Requester)
	err = r.Client.Status().Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("cannot write drift status: %w", err)
	}
	if isNew {
		r.began(d, i.Report.Parent, i.Logged)
	}
	return nil
}

// noteSeen notes how a drift was seen at a time, unless it was seen since: another replica may have recorded that already.
func noteSeen(s *v1alpha1.DriftStatus, r *admission.Report, at *metav1.Time) {
	if s.LastSeen == nil || !s.LastSeen.After(at.Time) {
		s.LastSeen, s.Intent, s.Separated = at, r.Drift.Intent, r.Separated
	}
}

// began records an occurrence that was stored. p is the parent; nil where it is unknown.
func (r *Reporter) began(d *v1alpha1.Drift, p *parent.State, logged bool) {
	if !r.Records.Enabled() {
		return
	}
	var of trace.Trace
	if p != nil {
		of = trace.Of(p.Annotations)
	}
	r.Records.Add(records.OfDrift(d, of, logged))
}

// begun returns the status of an occurrence since a time.
func (r *Reporter) begun(since *metav1.Time) v1alpha1.DriftStatus {
	return v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Since: since, Deliveries: owing(r.Receivers, since)}
}

// maxRequesters of a deletion that are recorded.
const maxRequesters = 16

// requestersOf returns the requesters of a deletion after a request by a user; "" for no request.
func requestersOf(before []string, user string) []string {
	if user == "" || slices.Contains(before, user) || len(before) >= maxRequesters {
		return before
	}
	return append(slices.Clone(before), user)
}

// heldOf returns what a Drift holds after a report; nil for nothing. A report during a freeze has nothing, which ends no hold.
func heldOf(before *v1alpha1.HeldDrift, now v1alpha1.HeldDrift) *v1alpha1.HeldDrift {
	if len(now.Drift) == 0 {
		return before
	}
	return &now
}

// Complete a Drift without a status, because the process that created it ended, or gave up
// (KR-10-11): it counts as detected since it was created. snoozed reports whether its parent is snoozed now.
func (r *Reporter) Complete(ctx context.Context, d *v1alpha1.Drift, snoozed bool) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if p := d.Spec.Parent; r.Recurred != nil && p.Name != "" {
		if err := r.Recurred(ctx, identity.Ref(p), d.Spec.ID); err != nil {
			return fmt.Errorf("cannot prepare a new occurrence: %w", err)
		}
	}
	since := d.CreationTimestamp
	written, err := editStatus(ctx, r.Client, d, func(s *v1alpha1.DriftStatus) {
		*s = r.begun(&since)
		s.LastSeen, s.Count, s.Snoozed = &since, 1, snoozed
	})
	if err != nil {
		return fmt.Errorf("cannot write drift status: %w", err)
	}
	if written != nil {
		r.began(written, nil, false)
	}
	return nil
}

// Hold more of the child of a Drift than it held.
func (r *Reporter) Hold(ctx context.Context, d *v1alpha1.Drift, held *v1alpha1.HeldDrift) error {
	next := d.DeepCopy()
	next.Status.Held = held
	if err := r.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(d, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("cannot hold the whole child of a drift: %w", err)
	}
	return nil
}

// editStatus of a Drift, unless the Drift was written since it was read. It returns the Drift as it was written; nil if it was not written, or is
// gone, since the next round reads what is stored.
func editStatus(ctx context.Context, c client.Client, d *v1alpha1.Drift, edit func(*v1alpha1.DriftStatus)) (*v1alpha1.Drift, error) {
	next := d.DeepCopy()
	edit(&next.Status)
	err := c.Status().Patch(ctx, next, client.MergeFromWithOptions(d, client.MergeFromWithOptimisticLock{}))
	if kerrors.IsConflict(err) || kerrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // See above.
	}
	return next, err
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

// createOrGet the Drift of an item. One that is resolved, or that nothing is recorded in, gets what describes this occurrence.
func (r *Reporter) createOrGet(ctx context.Context, i Item) (*v1alpha1.Drift, error) {
	want := object(i.Report)
	want.Spec.Request = boundedRequest(i.Request)
	d := want.DeepCopy()
	err := r.Client.Create(ctx, d)
	if err == nil {
		return d, nil
	}
	if !kerrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("cannot create drift: %w", err)
	}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), d); err != nil {
		return nil, fmt.Errorf("cannot read drift: %w", err)
	}
	recorded := d.Status.Phase != v1alpha1.DriftResolved && d.Status.Phase != ""
	if recorded || equality.Semantic.DeepEqual(d.Spec, want.Spec) {
		return d, nil
	}
	before := d.DeepCopy()
	d.Spec, d.OwnerReferences = want.Spec, want.OwnerReferences
	if err := r.Client.Patch(ctx, d, client.MergeFrom(before)); err != nil {
		return nil, fmt.Errorf("cannot describe the new occurrence of a drift: %w", err)
	}
	return d, nil
}
