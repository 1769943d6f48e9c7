package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
	"github.com/kausality-io/function-kausality/internal/policystore"
)

// Crossplane does not retry an apply that was refused with 422 (KR-05-24), nor kro one that was put back (KR-18-06). What
// allows the change later and is not written on the composite itself has to wake
// it: the mode of a Namespace, a policy, a window that begins (KR-08-20).

const (
	// wakesPerSecond bounds how fast composites are woken.
	wakesPerSecond = 10
	// recent bounds how long a change is remembered for refusals that were made
	// before it and are recorded after it. It is also the age up to which the last
	// refusal of a composite counts that does not report it yet.
	recent = time.Minute
	// wakeAgainAfter is the time by which all replicas have seen what changed.
	wakeAgainAfter = 15 * time.Second
	// clockSkew between webhook and gate that is tolerated.
	clockSkew = 2 * time.Second
)

// waker reconciles what its queue gets: composites whose children were refused, policies that changed, and Namespaces and rules
// whose freezes and windows end.
type waker struct {
	cluster *cluster.Cluster
	drifts  client.Client
	// rules has the ApprovalRules; nil for none.
	rules *policystore.Store
	scope *scope
	queue *queue
	// rate limits how fast it wakes.
	rate    *rate.Limiter
	log     logr.Logger
	relaxed relaxations
	thaws   thaws
}

// newWaker returns a waker in the scope of a core.
func newWaker(c *core) *waker {
	return &waker{cluster: c.cluster, drifts: c.reporter.drifts, rules: c.rules, scope: c.scope, queue: newQueue(),
		rate: rate.NewLimiter(wakesPerSecond, wakesPerSecond), log: c.log}
}

// relaxations remembers when something last changed, by Namespace ("" for the
// whole cluster), that may allow what was refused. It keeps what is recent. It is
// safe for concurrent use; the zero value is empty.
type relaxations struct {
	mu sync.Mutex
	at map[string]time.Time
}

// note a change now, in a Namespace or, for "", in the whole cluster.
func (r *relaxations) note(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.at, func(_ string, at time.Time) bool { return clock.Since(at) >= recent })
	if r.at == nil {
		r.at = map[string]time.Time{}
	}
	r.at[namespace] = clock.Now()
}

// since reports whether anything changed in one of the Namespaces after a refusal,
// or so little before it that the clocks of two machines cannot order them.
func (r *relaxations) since(refused time.Time, namespaces ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(namespaces, func(n string) bool {
		at := r.at[n]
		return clock.Since(at) < recent && at.Add(clockSkew).After(refused)
	})
}

// policyChanged is called when a policy is created, updated or deleted. One that
// existed when we started is no change, but its window may begin.
func (w *waker) policyChanged(old, new *states.Object) {
	switch {
	case !w.scope.wakesHere():
	case new == nil:
		w.queue.add(old.State.Ref)
	case old == nil || old.Generation != new.Generation:
		w.queue.add(new.State.Ref)
	}
}

// wakeRefused wakes the composites whose children were refused, in a Namespace or,
// where it is empty, in the whole cluster. It does not block, and does nothing
// where another process wakes (KR-08-20).
func (w *waker) wakeRefused(ctx context.Context, namespace string) error {
	if !w.scope.wakesHere() {
		return nil
	}
	w.relaxed.note(namespace)
	refused, err := refusals(ctx, w.drifts)
	if err != nil {
		return err
	}
	for i := range refused {
		d := &refused[i]
		if namespace == "" || d.Spec.Child.Namespace == namespace || d.Spec.Parent.Namespace == namespace {
			w.queue.add(identity.Ref(d.Spec.Parent))
			w.wakeAgain(d)
		}
	}
	return nil
}

// refusals returns the Drifts of refusals that a controller may not retry by itself.
func refusals(ctx context.Context, drifts client.Reader) ([]v1alpha1.Drift, error) {
	list := &v1alpha1.DriftList{}
	if err := drifts.List(ctx, list); err != nil {
		return nil, fmt.Errorf("cannot list drifts: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(d v1alpha1.Drift) bool { return !needsWake(&d) }), nil
}

// refusedBelow returns the refusals below a parent.
func refusedBelow(ctx context.Context, drifts client.Reader, o *states.Object) ([]v1alpha1.Drift, error) {
	all, err := refusals(ctx, drifts)
	return slices.DeleteFunc(all, func(d v1alpha1.Drift) bool { return withoutUID(identity.Ref(d.Spec.Parent)) != withoutUID(o.State.Ref) }), err
}

// wakeAgain wakes kro once more after a while, which does not come back by itself: a replica of the webhook may have decided before it saw
// what changed.
func (w *waker) wakeAgain(d *v1alpha1.Drift) {
	if ref := identity.Ref(d.Spec.Parent); d.Status.Separated && w.cluster.Kinds.Kind(ref.GroupVersionKind).Role == parent.RoleInstance {
		w.queue.addAfter(ref, wakeAgainAfter)
	}
}

// needsWake reports whether a Drift is of a refusal that its controller may not
// retry by itself.
func needsWake(d *v1alpha1.Drift) bool {
	return d.Status.Phase == v1alpha1.DriftDetected && d.Spec.Operation != "" && d.Spec.Parent.Name != "" &&
		(d.Spec.Relation != v1alpha1.RelationExternal || d.Status.RepeatFor != "")
}

// recordedLate wakes the parent of a refusal that was made before a change that
// may have allowed it, and is recorded only now.
func (w *waker) recordedLate(d *v1alpha1.Drift) {
	if !w.scope.wakesHere() || !needsWake(d) || d.Status.LastSeen == nil {
		return
	}
	if w.relaxed.since(d.Status.LastSeen.Time, "", d.Spec.Child.Namespace, d.Spec.Parent.Namespace) || w.decidedOn(d) {
		w.queue.add(identity.Ref(d.Spec.Parent))
	}
}

// decidedOn reports whether the instance above what was put back has decisions, which may have come before the Drift.
func (w *waker) decidedOn(d *v1alpha1.Drift) bool {
	if !d.Status.Separated {
		return false
	}
	o := w.cluster.States.Cached(identity.Ref(d.Spec.Parent))
	return o != nil && o.Role == parent.RoleInstance && hasDecisions(o)
}

// reconcile wakes one composite. Given a policy, which changed or whose
// window begins now, it wakes all that were refused anything, and comes back when
// the window begins.
func (w *waker) reconcile(ctx context.Context, ref parent.Ref) (reconcile.Result, error) {
	wait, err := reconcileOne(ctx, w, ref)
	return result(ctx, wait, err)
}

// reconcileOne object. wait is the time until a window or freeze of it begins or ends; 0 for never.
func reconcileOne(ctx context.Context, w *waker, ref parent.Ref) (wait time.Duration, err error) {
	switch {
	case ref.Group == "" && ref.Kind == namespaceKind:
		return w.frozenNamespace(ctx, ref.Name)
	case ref.Group != v1alpha1.Group:
		if wait = w.ownFreeze(ref); wait > 0 {
			return wait, nil
		}
		return 0, w.wake(ctx, ref)
	case ref.Kind == policyKind:
		wait = w.frozenPolicy(ref.Name)
	case ref.Kind == v1alpha1.KindApprovalRule:
		wait = w.ruleWindows(ref.Name)
	case ref.Kind == v1alpha1.KindUpgradeAllowance: // no other kind has a window
		if wait, err = w.window(ctx, ref); err != nil {
			return 0, err
		}
	}
	return wait, w.wakeRefused(ctx, "")
}

// window returns how long until the window of an UpgradeAllowance begins; 0 if it has no window, has begun, or the UpgradeAllowance is gone.
func (w *waker) window(ctx context.Context, ref parent.Ref) (time.Duration, error) {
	r, err := w.cluster.States.Resource(ref)
	if err != nil {
		return 0, err
	}
	if w.cluster.States.Cached(ref) == nil {
		return 0, nil
	}
	o, err := r.Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("cannot read %s: %w", identity.Describe(ref), err)
	}
	text, _, _ := unstructured.NestedString(o.Object, "spec", "validFrom") // it may have none
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, nil //nolint:nilerr // It has no window that could begin.
	}
	return max(0, at.Sub(clock.Now())), nil
}

// wake a composite that has a refused child which may be allowed now, by an
// annotation that its controller watches.
func (w *waker) wake(ctx context.Context, ref parent.Ref) error {
	o, err := w.cluster.States.Get(ctx, ref, false)
	if errors.Is(err, admission.ErrNotFound) { // nothing waits below it
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", identity.Describe(ref), err)
	}
	if o.Role == parent.RoleInstance {
		return w.wakeByChildren(ctx, o)
	}
	if _, thawed := w.thaws.waiting.LoadAndDelete(withoutUID(ref)); !thawed {
		if needed, err := w.sleeps(ctx, o); err != nil || !needed { // a later Drift, or a change that may allow it
			return err
		}
	}
	return w.touch(ctx, o.State.Ref)
}

// wakes reports whether kro may wait, because of a Drift, until something wakes it: it took an update that was put back for a success, and
// waits longer after each refused deletion below an instance that is being deleted. Other refusals it repeats every three seconds.
func wakes(instance *states.Object, d *v1alpha1.Drift) bool {
	return d.Spec.Operation == "UPDATE" || d.Spec.Operation == "DELETE" && instance.Deleting()
}

// wakeByChildren wakes kro by a write to a child of an instance for which it may wait: it ignores updates of the instance that are no
// new generation (KR-18-06). One write is enough, since kro reconciles the whole instance.
func (w *waker) wakeByChildren(ctx context.Context, o *states.Object) error {
	refused, err := refusedBelow(ctx, w.drifts, o)
	if err != nil {
		return err
	}
	claimed := map[string]bool{}
	for _, claim := range approval.ParseClaims(o.Annotations[v1alpha1.AnnotationKeyClaims]) {
		claimed[claim.Digest] = claimed[claim.Digest] || claim.State == v1alpha1.ClaimPending // the write that used it may be under way
	}
	var failed error
	for i := range refused {
		d := &refused[i]
		if !wakes(o, d) || claimed[d.Spec.ID] {
			continue
		}
		err := w.touch(ctx, identity.Ref(d.Spec.Child))
		switch {
		case err == nil:
			return nil
		case !kerrors.IsNotFound(err): // another child may do
			failed = errors.Join(failed, fmt.Errorf("cannot wake kro by %s: %w", identity.Describe(identity.Ref(d.Spec.Child)), err))
		}
	}
	return failed
}

// touch an object by an annotation that changes, which its controller sees.
func (w *waker) touch(ctx context.Context, ref parent.Ref) error {
	if err := w.rate.Wait(ctx); err != nil {
		return err
	}
	at := clock.Now().UTC().Format(time.RFC3339Nano)
	err := w.cluster.States.Apply(ctx, ref, states.Patch{
		Manager: v1alpha1.ManagerGate, Annotations: map[string]*string{v1alpha1.AnnotationKeyReconcileRequestedAt: &at},
	})
	if err == nil {
		wakeups.Inc()
	}
	return err
}

// sleeps reports whether a change of a composite's children was refused that its
// controller may not retry: controllers other than Crossplane retry by themselves.
func (w *waker) sleeps(ctx context.Context, o *states.Object) (bool, error) {
	if o.Role != parent.RoleComposite && o.Role != parent.RoleClaim {
		return false, nil
	}
	refused, err := refusedBelow(ctx, w.drifts, o)
	return slices.ContainsFunc(refused, func(d v1alpha1.Drift) bool {
		return !o.True("Synced") || d.Status.LastSeen != nil && clock.Since(d.Status.LastSeen.Time) < recent
	}), err
}

// instanceChanged wakes kro when what is decided about the children of an instance changes: an update of its annotations does not.
func (w *waker) instanceChanged(old, new *states.Object) {
	if new == nil || new.Role != parent.RoleInstance || !w.scope.wakesHere() {
		return
	}
	if old == nil && hasDecisions(new) || old != nil && !sameDecisions(old, new) {
		w.queue.add(new.State.Ref)
	}
}
