package drift

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

const (
	// restoreCapacity bounds the queue; what further Drifts hold is kept in the memory of this process alone.
	restoreCapacity = 1000
	// restoreAgain is when a Drift is tried again that cannot be restored.
	restoreAgain = 10 * time.Second
)

// restorer restores Drifts that are deleted although they are not over: what is held is held whether or not its Drift exists (KR-13-67). Every
// replica keeps what they hold, and the leader writes them.
type restorer struct {
	states interface {
		Get(ctx context.Context, ref parent.Ref, live bool) (*states.Object, error)
	}
	client  client.Client
	memory  *Memory
	elected <-chan struct{}
	queue   *queue[deleted]
}

// deleted is a Drift that was deleted, and when.
type deleted struct {
	*v1alpha1.Drift
	at time.Time
}

// newRestorer of what a Memory holds.
func newRestorer(states *states.States, r *Reporter, m *Memory, elected <-chan struct{}, log logr.Logger) (*restorer, error) {
	out := &restorer{states: states, client: r.Client, memory: m, elected: elected}
	var err error
	if out.queue, err = newQueue("drift-restorer", restoreCapacity, 1, log, out.handle); err != nil {
		return nil, err
	}
	m.lost = func(d *v1alpha1.Drift) { out.queue.add(d.Name, deleted{d, clock.Now()}) }
	return out, nil
}

// Start restores Drifts until the context ends.
func (r *restorer) Start(ctx context.Context) error { return r.queue.Start(ctx) }

// NeedLeaderElection is false.
func (*restorer) NeedLeaderElection() bool { return false }

// handle a deleted Drift. If it cannot be restored, it is tried again for a while; then only this process holds what it held. A replica
// that does not lead also tries again, since it may lead by then.
func (r *restorer) handle(ctx context.Context, d deleted) error {
	err := r.restoreOne(ctx, d.Drift)
	if err != nil && ctx.Err() == nil && clock.Since(d.at) < retryFor {
		r.queue.later(d.Name, d, restoreAgain)
	}
	if errors.Is(err, errFollower) {
		return nil
	}
	return err
}

// errFollower is why a replica that does not lead restores nothing.
var errFollower = errors.New("another replica restores it")

func (r *restorer) restoreOne(ctx context.Context, d *v1alpha1.Drift) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	switch over, err := r.over(ctx, d); {
	case err != nil:
		return err
	case over:
		r.memory.Forget(&d.Spec)
		return nil
	}
	select {
	case <-r.elected:
	default:
		return errFollower
	}
	err := r.restore(ctx, d)
	if kerrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || kerrors.IsNotFound(err) {
		r.memory.Forget(&d.Spec)
		return nil
	}
	return err
}

// over reports whether what a Drift is about is gone: its parent, or its child.
func (r *restorer) over(ctx context.Context, d *v1alpha1.Drift) (bool, error) {
	for _, o := range []v1alpha1.ObjectReference{d.Spec.Parent, d.Spec.Child} {
		if o.UID == "" {
			continue
		}
		found, err := r.states.Get(ctx, identity.Ref(o), true)
		switch {
		case errors.Is(err, admission.ErrNotFound):
			return true, nil
		case err != nil:
			return false, err
		case found.Deleting():
			return true, nil
		}
	}
	return false, nil
}

// restore a Drift that was deleted although it is not over (KR-13-67). What its receivers know of it stays. Where it occurred again
// meanwhile, what was recorded then counts.
func (r *restorer) restore(ctx context.Context, lost *v1alpha1.Drift) error {
	d := &v1alpha1.Drift{Spec: *lost.Spec.DeepCopy()}
	d.Name, d.Namespace, d.OwnerReferences = lost.Name, lost.Namespace, ownersOf(identity.Ref(lost.Spec.Parent))
	err := r.client.Create(ctx, d)
	if kerrors.IsAlreadyExists(err) { // this process may have created it, and not written its status
		if err = r.client.Get(ctx, client.ObjectKeyFromObject(lost), d); kerrors.IsNotFound(err) {
			return errors.New("cannot restore a drift: it was deleted again")
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("cannot restore a drift: %w", err)
	case d.Status.Phase != "":
		return nil
	}
	before := d.DeepCopy()
	d.Status = *lost.Status.DeepCopy()
	if err := r.client.Status().Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("cannot restore the status of a drift: %w", err)
	}
	return nil
}
