package drift

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	reportQueue = 1024
	// seenEvery is how often a standing drift's count and time are written.
	seenEvery = time.Minute
	// maxSeen bounds the ids that are remembered between two writes.
	maxSeen = 10_000
	// HomeNamespace holds the Drifts of cluster-scoped objects.
	HomeNamespace = "kausality-system"
)

// Item to report.
type Item struct {
	Report   *admission.Report
	Old, New *unstructured.Unstructured
	// Fetch New only where it is needed; nil where it is given.
	Fetch   func(context.Context) *unstructured.Unstructured
	Request *v1alpha1.ReportRequest

	// at is when it was seen, which may be long before it is recorded.
	at time.Time
}

// Reporter keeps Drift objects and has reports sent. Creating the Drift, or
// taking it from Resolved to Detected, is the lock that makes one replica send.
type Reporter struct {
	Client client.Client
	Sender *Sender
	Log    logr.Logger
	// Recurred is called when a difference occurs anew, before anybody is told:
	// what was spent on it earlier no longer counts.
	Recurred func(ctx context.Context, p parent.Ref, id string) error

	once  sync.Once
	queue chan Item
	mu    sync.Mutex
	seen  map[string]seen
}

type seen struct {
	at    time.Time
	count int64
}

func (r *Reporter) init() {
	r.once.Do(func() { r.queue, r.seen = make(chan Item, reportQueue), map[string]seen{} })
}

// Enqueue an item; it never blocks.
func (r *Reporter) Enqueue(i Item) {
	r.init()
	if !r.due(i.key()) {
		return
	}
	i.at = time.Now()
	select {
	case r.queue <- i:
		queued.Set(float64(len(r.queue)))
	default:
		dropped.Inc()
		r.forget(i.key())
	}
}

// key by which an item is told from one that was recorded a moment ago: a
// controller's DELETE must not be taken for a person's.
func (i Item) key() string {
	if i.Report.Repeat {
		return i.Report.Drift.ID + "/" + i.Report.Drift.User
	}
	return i.Report.Drift.ID
}

// due reports whether a standing drift is to be written again, and counts it.
func (r *Reporter) due(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.seen[id]
	s.count++
	now := time.Now()
	due := !ok || now.Sub(s.at) >= seenEvery
	if due {
		s.at = now
	}
	if !ok && len(r.seen) >= maxSeen {
		for k := range r.seen { // any one: at worst it is written once more
			delete(r.seen, k)
			break
		}
	}
	r.seen[id] = s
	return due
}

func (r *Reporter) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, id)
}

func (r *Reporter) counted(id string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.seen[id]
	n := s.count
	s.count = 0
	r.seen[id] = s
	return n
}

// Run until the context ends.
func (r *Reporter) Run(ctx context.Context) {
	r.init()
	go r.Sender.Run(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case i := <-r.queue:
			queued.Set(float64(len(r.queue)))
			if err := r.Record(ctx, i); err != nil && ctx.Err() == nil {
				r.Log.Error(err, "cannot record drift", "id", i.Report.Drift.ID)
				r.forget(i.key())
			}
		}
	}
}

const recordTimeout = 10 * time.Second

// Record an item in its Drift, and send the report if this is a new occurrence.
func (r *Reporter) Record(ctx context.Context, i Item) error {
	r.init()
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	d := drift(i.Report)
	if i.at.IsZero() {
		i.at = time.Now()
	}
	now := metav1.NewTime(i.at.UTC().Truncate(time.Second))
	err := r.Client.Create(ctx, d)
	if kerrors.IsAlreadyExists(err) {
		if err = r.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return fmt.Errorf("cannot read drift: %w", err)
		}
	} else if err != nil {
		return fmt.Errorf("cannot create drift: %w", err)
	}
	anew := d.Status.Phase != v1alpha1.DriftDetected
	if anew && r.Recurred != nil {
		if err := r.Recurred(ctx, i.Report.ParentRef, d.Spec.ID); err != nil {
			return fmt.Errorf("cannot prepare a new occurrence: %w", err)
		}
	}
	before := d.DeepCopy()
	if anew {
		d.Status = v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Since: &now}
	}
	d.Status.LastSeen, d.Status.Count = &now, d.Status.Count+max(1, r.counted(i.key()))
	if i.Report.Repeat {
		d.Status.RepeatFor = i.Report.Drift.User
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, d, patch); err != nil {
		if kerrors.IsConflict(err) {
			return nil // another replica has just written the same
		}
		return fmt.Errorf("cannot write drift status: %w", err)
	}
	if anew && !i.Report.Snoozed {
		if i.Fetch != nil {
			i.New = i.Fetch(ctx)
		}
		r.send(d, report(i, v1alpha1.DriftDetected, ""))
	}
	return nil
}

// send a report and remember that it was delivered.
func (r *Reporter) send(d *v1alpha1.Drift, out v1alpha1.DriftReport) {
	key, phase := client.ObjectKeyFromObject(d), d.Status.Phase
	r.Sender.Send(out, func(err error) {
		if err != nil {
			r.Log.Error(err, "drift report not delivered", "drift", key)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
		defer cancel()
		raw := fmt.Appendf(nil, `{"status":{"phase":%q,"notified":true}}`, phase)
		o := &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		if err := r.Client.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, raw)); client.IgnoreNotFound(err) != nil {
			r.Log.Error(err, "cannot mark drift as notified", "drift", key)
		}
	})
}

// Resolve a drift, once: the replica that takes it from Detected to Resolved
// sends the report.
func (r *Reporter) Resolve(ctx context.Context, d *v1alpha1.Drift, why string) error {
	if d.Status.Phase != v1alpha1.DriftDetected {
		return nil
	}
	r.forgetLocked(d.Spec.ID)
	if d.Status.RepeatFor != "" {
		r.forgetLocked(d.Spec.ID + "/" + d.Status.RepeatFor)
	}
	before := d.DeepCopy()
	d = d.DeepCopy()
	d.Status.Phase, d.Status.Resolution, d.Status.Notified = v1alpha1.DriftResolved, why, false
	err := r.Client.Status().Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if kerrors.IsConflict(err) || kerrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot resolve drift: %w", err)
	}
	r.send(d, resolved(d, why))
	return nil
}

func (r *Reporter) forgetLocked(id string) { r.init(); r.forget(id) }

// drift object of a report.
func drift(r *admission.Report) *v1alpha1.Drift {
	d := &v1alpha1.Drift{Spec: r.Drift}
	d.Name, d.Namespace = r.Drift.ID, r.ParentRef.Namespace
	if d.Namespace == "" {
		d.Namespace = r.Drift.Child.Namespace
	}
	if d.Namespace == "" {
		d.Namespace = HomeNamespace
	}
	if p := r.ParentRef; p.UID != "" {
		apiVersion, kind := p.ToAPIVersionAndKind()
		d.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: p.Name, UID: p.UID}}
	}
	return d
}

// report to send for an item.
func report(i Item, phase v1alpha1.DriftPhase, why string) v1alpha1.DriftReport {
	d := i.Report.Drift
	out := v1alpha1.DriftReport{Spec: v1alpha1.DriftReportSpec{
		ID: d.ID, Phase: phase, Relation: d.Relation, Child: v1alpha1.ReportChild{ObjectReference: d.Child},
		Parent: v1alpha1.ReportParent{ObjectReference: d.Parent}, Difference: d.Difference, Cause: d.Cause,
		SuggestedApproval: d.SuggestedApproval, Request: i.Request, Resolution: why,
	}}
	out.APIVersion, out.Kind = v1alpha1.GroupVersion.String(), "DriftReport"
	if p := i.Report.Parent; p != nil {
		out.Spec.Parent.ObservedGeneration, out.Spec.Parent.ControllerManager = p.ObservedGeneration, p.Manager
		out.Spec.Parent.LifecyclePhase = lifecycle(p)
	}
	if raw := redact(i.Old); raw != nil {
		out.Spec.OldObject = raw
	}
	if raw := redact(i.New); raw != nil {
		out.Spec.NewObject = *raw
	} else if out.Spec.OldObject != nil {
		out.Spec.NewObject = *out.Spec.OldObject
	}
	return out
}

func resolved(d *v1alpha1.Drift, why string) v1alpha1.DriftReport {
	return report(Item{Report: &admission.Report{Drift: d.Spec}}, v1alpha1.DriftResolved, why)
}
