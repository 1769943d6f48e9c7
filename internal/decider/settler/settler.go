package settler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

const (
	// name of the controller and its queue, in metrics and logs.
	name         = "settler"
	workers      = 2
	writeTimeout = 5 * time.Second
	// followerPatience is for how long the other replicas leave a record to the leader.
	followerPatience = 2 * time.Second
	// phasePatience is for how long a phase waits to be written with something else.
	phasePatience = 3 * time.Second
	// writesPerSecond bounds the load that the Settler adds to the API server.
	writesPerSecond = 50
	// afterConflict is when an object is reconciled again after its cached state was out of date. Usually its
	// watch event comes first.
	afterConflict = 500 * time.Millisecond
	// otherVersion is when an object is read live after its status was reviewed in another version than the
	// watched one: its conversion may change the status.
	otherVersion = time.Second
	// reviewPatience is for how long the first review of a kind's status waits for a read of the object.
	reviewPatience = time.Second
	// lagInterval is the time between two reads of a watch that is behind.
	lagInterval = 10 * time.Millisecond
	// maxBehind bounds the reviews that wait for a watch at the same time: they read nothing, but may be forged.
	maxBehind = 64
)

// objects that are watched. states.States implements it.
type objects interface {
	Cached(ref parent.Ref) *states.Object
	Get(ctx context.Context, ref parent.Ref, live bool) (*states.Object, error)
	Look(ctx context.Context, ref parent.Ref) (*states.Object, error)
	Apply(ctx context.Context, ref parent.Ref, p states.Patch) error
}

// Settler writes to parents what they lack (KR-03-06). Every replica computes the latches in Memory; the
// leader writes them. Who writes a status is known only to the replica that saw the request, so each
// writes the controllers it saw.
//
// That an object is a parent is known to the replica that had a request about a child. Until an annotation
// shows it that may not be the leader: the API server keeps few connections, and behind a Service all of
// them may lead to one replica. What the leader has not written for a while, the others write.
type Settler struct {
	cluster *cluster.Cluster
	states  objects
	memory  *Memory
	log     logr.Logger
	grace   time.Duration
	now     func() time.Time
	// traceOnly reports whether the policy of an object only traces.
	traceOnly func(*parent.State) bool

	leader     atomic.Bool
	queue      workqueue.TypedRateLimitingInterface[parent.Ref]
	controller controller.TypedController[parent.Ref]
	limit      *rate.Limiter
	// reading are the live reads for reviews of statuses.
	reading chan struct{}
	// behind are the reviews of statuses that wait for a watch. One of a version that no watch will show keeps none from reading.
	behind chan struct{}
	// searched has the claims, by id, for which a child was searched lately.
	searched *utilcache.LRUExpireCache
}

// New returns a Settler that writes nothing until Start. grace is for how long an XR must stay converged
// (KR-03-07). Call it before the cluster starts.
func New(c *cluster.Cluster, m *Memory, grace time.Duration, log logr.Logger) (*Settler, error) {
	s := &Settler{cluster: c, states: c.States, memory: m, grace: grace, log: log, now: clock.Now, limit: rate.NewLimiter(writesPerSecond, writesPerSecond),
		searched: utilcache.NewLRUExpireCache(maxSearches), reading: make(chan struct{}, workers), behind: make(chan struct{}, maxBehind)}
	s.traceOnly = func(p *parent.State) bool { return c.Settings(p.Ref, p.Labels).TraceOnly }
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[parent.Ref](50*time.Millisecond, 30*time.Second)
	s.queue = workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[parent.Ref]{Name: name})
	var err error
	s.controller, err = controller.NewTypedUnmanaged(name, controller.TypedOptions[parent.Ref]{
		Reconciler: s, RateLimiter: limiter, MaxConcurrentReconciles: workers, SkipNameValidation: new(true),
		LogConstructor: func(ref *parent.Ref) logr.Logger {
			if ref == nil {
				return log
			}
			return log.WithValues("parent", identity.Describe(*ref))
		},
		// The queue takes objects from the moment that requests and watches do, which is before Start.
		NewQueue: func(string, workqueue.TypedRateLimiter[parent.Ref]) workqueue.TypedRateLimitingInterface[parent.Ref] {
			return s.queue
		},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make the controller that records on parents: %w", err)
	}
	c.States.DigestStatuses(m.AwaitsStatus)
	c.States.OnChange(s.changed)
	c.States.OnUnwatch(func(o *states.Object) { m.Forget(o.State.UID) })
	return s, nil
}

// changed objects are reconciled where something may be recorded on them, and their parents where these settle by them: most writes are to
// objects that nothing is recorded on.
func (s *Settler) changed(old, new *states.Object) {
	if new == nil {
		s.memory.Forget(old.State.UID)
		return
	}
	from := ""
	if old != nil {
		from = old.ResourceVersion
	}
	s.memory.StatusStored(from, new.State, new.StatusDigest)
	known := false
	if new.Role != parent.RoleManaged {
		_, known, _ = s.memory.observed(new.State) // here, since the queue skips states that lasted only for a moment
	}
	if known || s.lacks(new.State) {
		s.queue.Add(new.State.Ref)
	}
	if new.Parent.Name == "" {
		return
	}
	if p := s.states.Cached(new.Parent); p != nil && s.settlesBy(p.State) {
		s.queue.Add(p.State.Ref)
	}
}

// lacks reports whether something may be missing on an object that cannot settle, since it shows no observed generation.
func (s *Settler) lacks(o *parent.State) bool {
	if len(approval.Counted(o.Annotations)) > 0 {
		return true
	}
	return o.Role != parent.RoleManaged && (s.memory.isParent(o) || o.Annotations[v1alpha1.AnnotationKeyClaims] != "" || s.memory.scaleOf(o.UID) != nil)
}

// settlesBy reports whether changes of its children change what is recorded on an object: an XR or Claim settles by them, until it has, and
// claims of approvals end by them.
func (s *Settler) settlesBy(p *parent.State) bool {
	if p.Annotations[v1alpha1.AnnotationKeyClaims] != "" {
		return true
	}
	if p.Role != parent.RoleComposite && p.Role != parent.RoleClaim {
		return false
	}
	intent, _ := trace.Intent(p)
	return max(p.SettledGeneration(), s.memory.Settled(p.Ref)) < intent.Generation
}

// NoteParent notes that an object is a parent, which its watch may have shown before that was known.
func (s *Settler) NoteParent(p *parent.State) {
	if s.memory.NoteParent(p) {
		s.queue.Add(p.Ref)
	}
}

// Lead makes this replica the one that writes latches.
func (s *Settler) Lead() {
	s.leader.Store(true)
	for _, gvk := range s.cluster.States.Kinds() {
		informer.Each(name, s.cluster.States.List(gvk), func(o *states.Object) { s.changed(nil, o) })
	}
}

// Start reconciles objects until the context ends.
func (s *Settler) Start(ctx context.Context) error { return s.controller.Start(ctx) }

// NeedLeaderElection is false: every replica computes the latches.
func (*Settler) NeedLeaderElection() bool { return false }

// Reconcile an object: write what it lacks if it is a parent.
func (s *Settler) Reconcile(ctx context.Context, ref parent.Ref) (reconcile.Result, error) {
	again, err := s.update(ctx, ref)
	switch {
	case kerrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: afterConflict}, nil
	case err != nil:
		// When the process ends, controller-runtime drops the error with the queue.
		return reconcile.Result{}, fmt.Errorf("cannot record on parent: %w", err)
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// update one parent. again is when it is to be reconciled again; 0 for when it changes.
func (s *Settler) update(ctx context.Context, ref parent.Ref) (again time.Duration, err error) {
	o := s.states.Cached(ref)
	if o == nil {
		s.look(ref, "")
		return 0, s.watch(ref)
	}
	if o.State.UID != ref.UID || o.Deleting() || s.traceOnly(o.State) { // which are written to by their users alone (KR-07-13)
		return 0, nil
	}
	edits := map[string]*string{}
	if o.Role == parent.RoleManaged { // its claims are the gate's
		maps.Copy(edits, approval.Counted(o.Annotations))
		return s.leaveToLeader(o.State, edits), s.write(ctx, o.State, edits)
	}
	for key, value := range s.memory.controllers(o.State) {
		edits[key] = &value
	}
	settledAgain := s.settle(ctx, o.State, edits)
	claimsAgain, err := s.claims(ctx, o.State, edits)
	if err != nil {
		return 0, err
	}
	phaseAgain := s.together(o.State, edits, settledAgain > 0)
	leaderAgain := s.leaveToLeader(o.State, edits)
	if err := s.write(ctx, o.State, edits); err != nil {
		return 0, err
	}
	return soonest(soonest(phaseAgain, leaderAgain), soonest(settledAgain, claimsAgain)), nil
}

// together leaves out, for a while, what is recorded on a parent while it is created, so that it is one write: the controllers follow the
// first phase within milliseconds, and the latch follows the last one after the grace, which settles is about. Each of these writes is an
// event of a composite, of which Crossplane's circuit breaker counts the sum (KR-04-17, KR-04-18). The phase is derived from the object until then;
// the controllers are known to the replica that saw them, and to the others by what they write and may write (KR-04-03, KR-13-41).
func (s *Settler) together(p *parent.State, edits map[string]*string, settles bool) (again time.Duration) {
	wanted := ""
	if phase := edits[v1alpha1.AnnotationKeyPhase]; phase != nil {
		wanted = *phase
	}
	const initialized = string(v1alpha1.PhaseInitialized)
	if s.memory.waiting(p.UID) == initialized && p.Annotations[v1alpha1.AnnotationKeyPhase] != initialized {
		wanted = initialized // it was, and stays so (KR-03-09)
		edits[v1alpha1.AnnotationKeyPhase] = new(initialized)
	}
	since := s.memory.waits(p.UID, wanted)
	waiting := []string{v1alpha1.AnnotationKeyPhase}
	patience := phasePatience
	switch {
	case p.Role == parent.RoleComposite || p.Role == parent.RoleClaim:
		waiting, patience = append(waiting, controllerKeys...), patience+2*s.grace
	case settles && wanted == initialized:
		patience += s.grace
	}
	for k := range edits {
		if wanted == "" || !slices.Contains(waiting, k) {
			return 0
		}
	}
	left := since.Add(patience).Sub(s.now())
	if left <= 0 || len(edits) == 0 {
		return 0
	}
	for _, k := range waiting {
		delete(edits, k)
	}
	return left
}

// watch the kind of an object whose status is reviewed, since it may be a parent of which another replica
// had a request about a child. Kinds that the webhook configuration names are watched from the start
// (cluster.WatchParents); this is for a configuration that has another name than ours.
func (s *Settler) watch(ref parent.Ref) error {
	if s.cluster.States.Watches(ref.GroupKind()) || s.cluster.Unguarded(ref.GroupVersionKind) ||
		s.cluster.Kinds.Kind(ref.GroupVersionKind).Role == parent.RoleManaged { // which is no parent
		return nil
	}
	if err := s.cluster.States.Watch(ref.GroupVersionKind); err != nil {
		return reconcile.TerminalError(fmt.Errorf("cannot watch a kind that may be a parent: %w", err)) // the next status write tries again
	}
	return nil
}

// controllerKeys record who writes the status, which each replica sees.
var controllerKeys = []string{v1alpha1.AnnotationKeyControllers, v1alpha1.AnnotationKeyControllerIDs}

// leaveToLeader removes, for a while, the edits that are the leader's to write: all but what this replica
// alone saw, which is who writes the status and who scaled.
func (s *Settler) leaveToLeader(p *parent.State, edits map[string]*string) (again time.Duration) {
	if s.leader.Load() {
		return 0
	}
	scaled := s.filled(s.memory.FillState(p))
	theirs := maps.Clone(edits)
	maps.DeleteFunc(theirs, func(k string, _ *string) bool {
		return slices.Contains(controllerKeys, k) || scaled && slices.Contains(scaleKeys, k)
	})
	since := s.memory.missing(p.UID, len(theirs) > 0)
	if left := since.Add(followerPatience).Sub(s.now()); len(theirs) > 0 && left > 0 {
		again = left
		for k := range theirs {
			delete(edits, k)
		}
	}
	return again
}

// soonest returns the shorter of two delays; 0 is no delay.
func soonest(a, b time.Duration) time.Duration {
	if a <= 0 || (b > 0 && b < a) {
		return b
	}
	return a
}

// write edits of annotations to a parent that has not changed since; nil values remove. Nothing without
// edits, or for a parent that is gone.
func (s *Settler) write(ctx context.Context, p *parent.State, edits map[string]*string) error {
	if len(edits) == 0 {
		return nil
	}
	if err := s.limit.Wait(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := s.states.Apply(ctx, p.Ref, states.Patch{Manager: v1alpha1.ManagerWebhook, ResourceVersion: p.ResourceVersion, Annotations: edits})
	if kerrors.IsNotFound(err) {
		return nil
	}
	if _, ok := edits[v1alpha1.AnnotationKeyTrace]; ok && err == nil {
		s.memory.scaleRecorded(p.UID)
	}
	return err
}
