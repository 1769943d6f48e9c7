package webhook

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/settling"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
)

// writer is the one asynchronous writer of the webhook process (spec 3). Every
// replica computes the latches, in memory; the leader writes them. Who writes a
// status is known to the replica that saw the request, so each writes the
// controllers it saw.
//
// A kind is watched from the first question about it on, and the API server may
// keep to few connections: the leader may never hear of a parent. What it has not
// written for a while, another replica that knows of it writes in its place.
type writer struct {
	cluster *cluster.Cluster
	tracker *tracker
	log     logr.Logger
	grace   time.Duration
	now     func() time.Time

	leader  atomic.Bool
	hearsay hearsay
	queue   workqueue.TypedRateLimitingInterface[parent.Ref]
	limit   *rate.Limiter
}

const (
	writeWorkers = 2
	writeTimeout = 5 * time.Second
	// followerPatience is how long the others leave a record to the leader.
	followerPatience = 2 * time.Second
	// writesPerSecond is what the writer adds to the API server's load at most.
	writesPerSecond = 50
)

func newWriter(c *cluster.Cluster, t *tracker, grace time.Duration, log logr.Logger) *writer {
	w := &writer{cluster: c, tracker: t, grace: grace, log: log, now: time.Now}
	w.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[parent.Ref](50*time.Millisecond, 30*time.Second))
	w.limit = rate.NewLimiter(writesPerSecond, writesPerSecond)
	c.States.OnChange(w.changed)
	return w
}

// changed objects are looked at, and their parents, whose settling they decide.
func (w *writer) changed(old, new *cluster.Object) {
	if new == nil {
		w.tracker.forget(old.State.UID)
		return
	}
	if new.Role != parent.RoleManaged {
		w.tracker.observed(new.State) // here, since the queue passes over what lasted but a moment
		w.queue.Add(new.State.Ref)
	}
	if new.Parent.Name == "" {
		return
	}
	if p := w.cluster.States.Cached(new.Parent); p != nil {
		w.queue.Add(p.State.Ref)
	}
}

// notice that an object is a parent: its watch may have shown it before that was
// known.
func (w *writer) notice(ref parent.Ref) { w.queue.Add(ref) }

// saw an object's status being written.
func (w *writer) saw(ref parent.Ref) {
	o := w.cluster.States.Cached(ref)
	if o == nil {
		w.hears(ref)
		return
	}
	if _, missing := w.tracker.controllers(o.State); missing {
		w.queue.Add(o.State.Ref)
	}
}

// elected makes this replica the one that writes latches.
func (w *writer) elected() {
	w.leader.Store(true)
	for _, i := range w.cluster.Kinds.All() {
		for _, o := range w.cluster.States.List(i.GVK) {
			w.changed(nil, o)
		}
	}
}

// Run until the context ends.
func (w *writer) Run(ctx context.Context) {
	for range writeWorkers {
		go func() {
			for more := true; more; {
				more = w.next(ctx)
			}
		}()
	}
	<-ctx.Done()
	w.queue.ShutDown()
}

func (w *writer) next(ctx context.Context) bool {
	ref, quit := w.queue.Get()
	if quit {
		return false
	}
	defer w.queue.Done(ref)
	again, err := w.look(ctx, ref)
	switch {
	case err != nil && ctx.Err() == nil:
		if !kerrors.IsConflict(err) {
			w.log.Error(err, "cannot record on parent", "parent", identity.Describe(ref))
		}
		w.queue.AddRateLimited(ref)
	case again > 0:
		w.queue.Forget(ref)
		w.queue.AddAfter(ref, again)
	default:
		w.queue.Forget(ref)
	}
	return true
}

// look at one parent and write what it lacks.
func (w *writer) look(ctx context.Context, ref parent.Ref) (again time.Duration, err error) {
	o := w.cluster.States.Cached(ref)
	if o == nil {
		return w.listen(ctx, ref), nil
	}
	if o.State.UID != ref.UID || o.Deleting() {
		return 0, nil
	}
	edits := map[string]*string{}
	if value, missing := w.tracker.controllers(o.State); missing {
		edits[v1alpha1.AnnotationKeyControllers] = &value
	}
	settledAgain := w.settle(ctx, o.State, edits)
	claimsAgain, err := w.claims(ctx, o.State, edits)
	if err != nil {
		return 0, err
	}
	followAgain := w.follow(o.State, edits)
	if err := w.write(ctx, o.State, edits); err != nil {
		return 0, err
	}
	return soonest(followAgain, soonest(settledAgain, claimsAgain)), nil
}

// follow leaves to the leader what is its to write, for a while: everything but
// what this replica alone saw, who writes the status and who scaled.
func (w *writer) follow(s *parent.State, edits map[string]*string) (again time.Duration) {
	if w.leader.Load() {
		return 0
	}
	scaled := w.filled(w.tracker.scaled(s))
	theirs := maps.Clone(edits)
	maps.DeleteFunc(theirs, func(k string, _ *string) bool {
		return k == v1alpha1.AnnotationKeyControllers || scaled && slices.Contains(scaledKeys, k)
	})
	since := w.tracker.lacking(s.UID, len(theirs) > 0)
	if left := since.Add(followerPatience).Sub(w.now()); len(theirs) > 0 && left > 0 {
		again = left
		for k := range theirs {
			delete(edits, k)
		}
	}
	return again
}

func soonest(a, b time.Duration) time.Duration {
	if a <= 0 || (b > 0 && b < a) {
		return b
	}
	return a
}

func (w *writer) write(ctx context.Context, s *parent.State, edits map[string]*string) error {
	if len(edits) == 0 {
		return nil
	}
	if err := w.limit.Wait(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := w.cluster.States.Apply(ctx, s.Ref, cluster.Patch{Manager: ManagerWebhook, ResourceVersion: s.ResourceVersion, Annotations: edits})
	if kerrors.IsNotFound(err) {
		return nil
	}
	if _, ok := edits[v1alpha1.AnnotationKeyTrace]; ok && err == nil {
		w.tracker.recorded(s.UID)
	}
	return err
}

// settle latches the intent generation where the parent reached it, and records
// unattributed intents and the phase.
func (w *writer) settle(ctx context.Context, s *parent.State, edits map[string]*string) (again time.Duration) {
	s = w.tracker.scaled(s)
	intent, recorded := trace.Intent(s)
	if filled := w.filled(s); (filled || !recorded && w.tracker.parental(s)) && intent.Generation > 0 {
		value := trace.Current(s).String()
		edits[v1alpha1.AnnotationKeyTrace] = &value
		w.carry(s, edits)
	}
	in := settling.Observation{Parent: s, Grace: w.grace, Now: w.now()}
	in.Observed, in.Known, in.ObservedSince = w.tracker.observed(s)
	latch := max(s.SettledGeneration(), w.tracker.settled(s.Ref))
	if latch < intent.Generation || latch > s.SettledGeneration() {
		ok := latch >= intent.Generation
		if !ok {
			w.children(ctx, s, &in)
			ok, again = in.Settles()
		}
		if ok {
			latch = max(latch, intent.Generation)
			w.tracker.latch(s.UID, latch)
			value := strconv.FormatInt(latch, 10)
			edits[v1alpha1.AnnotationKeySettledGeneration] = &value
		}
	}
	settledState(s, latch, intent.Generation, edits)
	if !w.tracker.parental(s) {
		delete(edits, v1alpha1.AnnotationKeySettledGeneration)
		delete(edits, v1alpha1.AnnotationKeySettledState)
		return again
	}
	phase := s.Phase(latch > 0, w.cluster.Policies.Initialized(s.GroupKind())...)
	if have := v1alpha1.Phase(s.Annotations[v1alpha1.AnnotationKeyPhase]); phase != have && phase != v1alpha1.PhaseDeleting && have != v1alpha1.PhaseInitialized {
		value := string(phase)
		edits[v1alpha1.AnnotationKeyPhase] = &value
	}
	return again
}

// settledState is recorded once for each intent that settled, with the latch or,
// where an older release wrote that, after it: only while the last intent is the
// one that settled is the desired state that of the latch. Another version of the
// kind, a default or the object's own controller may make it another later;
// then it tells nothing until the next intent, and is not written again, which
// would have two writers take turns.
func settledState(s *parent.State, latch, intent int64, edits map[string]*string) {
	if latch != intent || s.HasSettledState(intent) {
		return
	}
	if value := s.SettledState(intent); value != "" {
		edits[v1alpha1.AnnotationKeySettledState] = &value
	}
}

// filled reports whether the tracker supplied the user of a scale intent that
// the object itself does not show yet.
func (w *writer) filled(s *parent.State) bool {
	o := w.cluster.States.Cached(s.Ref)
	return o != nil && o.Annotations[v1alpha1.AnnotationKeyTrace] != s.Annotations[v1alpha1.AnnotationKeyTrace]
}

// carry the annotations that come with a change through /scale.
func (w *writer) carry(s *parent.State, edits map[string]*string) {
	o := w.cluster.States.Cached(s.Ref)
	if o == nil {
		return
	}
	for _, k := range scaledKeys {
		have, had := o.Annotations[k]
		switch want, has := s.Annotations[k]; {
		case k == v1alpha1.AnnotationKeyTrace:
		case has && (!had || want != have):
			edits[k] = &want
		case had && !has:
			edits[k] = nil
		}
	}
}

// children of an XR or Claim that are guarded; the others carry no trace.
// Those of kinds with a role in Crossplane are watched, the others (ConfigMaps,
// Secrets) are read: nobody wants a watch on all of them. Missing where one
// cannot be read now.
func (w *writer) children(ctx context.Context, s *parent.State, in *settling.Observation) {
	for _, ref := range s.Children {
		info, err := w.cluster.Kinds.Get(ref.GroupVersionKind)
		if err != nil {
			in.Missing = true
			return
		}
		if !w.cluster.Scope.Covers(info.GVR.GroupResource()) {
			continue
		}
		o, err := w.cluster.States.Look(ctx, ref)
		if errors.Is(err, admission.ErrNotFound) {
			continue
		}
		if err != nil {
			in.Missing = true
			return
		}
		in.Children = append(in.Children, o.State)
		in.Unwatched = in.Unwatched || w.cluster.States.Cached(o.State.Ref) == nil
	}
}

// claims that are pending are finished: used once the change landed, given back
// where it is known that it did not.
func (w *writer) claims(ctx context.Context, s *parent.State, edits map[string]*string) (again time.Duration, err error) {
	all := approval.ParseClaims(s.Annotations[v1alpha1.AnnotationKeyClaims])
	claims, used := all, map[string]bool{}
	for _, c := range all {
		if c.State != v1alpha1.ClaimPending || c.Relation == v1alpha1.RelationExternal {
			continue
		}
		if left := c.At.Add(followerPatience).Sub(w.now()); !w.leader.Load() && left > 0 {
			again = soonest(again, left)
			continue
		}
		var child *parent.State
		if c.Child != nil {
			if child, err = w.child(ctx, *c.Child); err != nil {
				return 0, err
			}
		}
		switch next := settling.ClaimOutcome(c, child, w.now()); next {
		case "":
			again = soonest(again, time.Second)
		default:
			claims = claims.Set(c.ID, next, w.now())
			used[c.Content] = next == v1alpha1.ClaimUsed
		}
	}
	if len(used) == 0 {
		return again, nil
	}
	for k, v := range approval.Remove(s.Annotations, func(e approval.Entry) bool { return used[e.Content] }) {
		edits[k] = v
	}
	value := claims.String()
	edits[v1alpha1.AnnotationKeyClaims] = &value
	return again, nil
}

// child of a claim as it is now; nil where it does not exist.
func (w *writer) child(ctx context.Context, c v1alpha1.ClaimChild) (*parent.State, error) {
	if c.Name == "" {
		return nil, nil //nolint:nilnil // A child without a name cannot be found.
	}
	o, err := w.cluster.States.Get(ctx, refOf(c), true)
	if errors.Is(err, admission.ErrNotFound) {
		return nil, nil //nolint:nilnil // nil is a child that is gone.
	}
	if err != nil {
		return nil, err
	}
	return o.State, nil
}

func refOf(c v1alpha1.ClaimChild) parent.Ref {
	return parent.Ref{GroupVersionKind: schema.FromAPIVersionAndKind(c.APIVersion, c.Kind), Namespace: c.Namespace, Name: c.Name}
}
