package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/rollout"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// renewAfter is how old a plan without votes is before it is made again, where other changes wait by then.
const renewAfter = 30 * time.Second

// pending changes that a Rollout is of, as the reader has them.
func (c *Controller) pending(ctx context.Context, o *object, from client.Reader) ([]rollout.Pending, error) {
	list := &v1alpha1.DriftList{}
	// The items may be the cache's, and are only read.
	if err := from.List(ctx, list, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("cannot list drifts: %w", err)
	}
	unlabelled := o.spec
	if s := o.spec.Selector; s != nil && s.Labels != nil {
		unlabelled = o.spec.DeepCopy()
		unlabelled.Selector.Labels = nil
	}
	var out []rollout.Pending
	for i := range list.Items {
		d := &list.Items[i]
		p := rollout.Pending{Drift: d}
		if !rollout.Wanted(unlabelled, o.GetNamespace(), p) {
			continue // its parent is not read
		}
		if unlabelled != o.spec {
			of, err := stateOf(ctx, c, identity.Ref(d.Spec.Parent))
			if err != nil {
				return nil, err
			}
			if of == nil {
				continue
			}
			p.Labels = of.Labels
		}
		if rollout.Wanted(o.spec, o.GetNamespace(), p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// stateOf an object, from the watch of its kind or live; nil where it does not exist, or its kind is not served any more.
func stateOf(ctx context.Context, c *Controller, ref parent.Ref) (*parent.State, error) {
	o, err := c.Cluster.States.Get(ctx, ref, false)
	switch {
	case errors.Is(err, admission.ErrNotFound), meta.IsNoMatchError(err):
		return nil, nil //nolint:nilnil // See above.
	case err != nil:
		return nil, fmt.Errorf("cannot read %s: %w", identity.Describe(ref), err)
	}
	return o.State, nil
}

// plan a Rollout: its batches are written first, so that a plan with an id has all of them.
func (c *Controller) plan(ctx context.Context, o *object, r *run, pending []rollout.Pending) error {
	p := rollout.New(o.GetUID(), o.spec, pending)
	batches := rollout.Batches(p.Objects)
	r.plan, r.batches, r.stored = "", nil, nil
	made := make([]*v1alpha1.RolloutBatch, 0, len(batches))
	for i, objects := range batches {
		b := c.batch(o, p.ID, i, objects)
		err := c.Client.Create(ctx, b, client.FieldOwner(v1alpha1.ManagerWebhook))
		if kerrors.IsAlreadyExists(err) { // from before this process began
			err = c.storedBatch(ctx, o, b)
		}
		if err != nil {
			return fmt.Errorf("cannot write a part of the plan: %w", err)
		}
		made = append(made, sized(b))
		r.keep(b)
	}
	r.plan, r.generation, r.batches, r.replaced = p.ID, o.GetGeneration(), made, true
	*o.status = v1alpha1.RolloutStatus{
		Plan: &v1alpha1.RolloutPlan{ID: p.ID, MadeAt: metav1.NewTime(clock.Now().Truncate(time.Second)),
			Objects: count(len(p.Objects)), Differences: count(p.Differences), Batches: count(len(batches))},
	}
	return nil
}

// count as it is in a status.
func count(n int) int32 { return int32(min(n, 1<<30)) } //nolint:gosec // It is bounded.

// maxPrefix bounds what a batch's name has of its Rollout's.
const maxPrefix = 200

func (c *Controller) batch(o *object, plan string, index int, objects []v1alpha1.RolloutObject) *v1alpha1.RolloutBatch {
	name := o.GetName()
	b := &v1alpha1.RolloutBatch{ObjectMeta: metav1.ObjectMeta{
		Namespace: c.batchNamespace(o), Name: name[:min(len(name), maxPrefix)] + "-" + plan + "-" + strconv.Itoa(index),
		Labels: map[string]string{v1alpha1.LabelRollout: string(o.GetUID())},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: o.kind, Name: name, UID: o.GetUID(),
			Controller: new(true)}},
	}}
	b.Spec = v1alpha1.RolloutBatchSpec{Plan: plan, Index: count(index), Objects: objects}
	return b
}

func (c *Controller) batchNamespace(o *object) string {
	return cmp.Or(o.GetNamespace(), c.Namespace)
}

// sized gives a batch a state for each object.
func sized(b *v1alpha1.RolloutBatch) *v1alpha1.RolloutBatch {
	for len(b.Status.Objects) < len(b.Spec.Objects) {
		b.Status.Objects = append(b.Status.Objects, v1alpha1.RolloutObjectStatus{})
	}
	return b
}

// storedBatch reads a part of a plan as it is stored.
func (c *Controller) storedBatch(ctx context.Context, o *object, b *v1alpha1.RolloutBatch) error {
	list, err := c.listBatches(ctx, o)
	if err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].Name == b.Name {
			*b = list.Items[i]
			return nil
		}
	}
	return errors.New("it was deleted meanwhile")
}

// listBatches of all plans of a Rollout.
func (c *Controller) listBatches(ctx context.Context, o *object) (*v1alpha1.RolloutBatchList, error) {
	list := &v1alpha1.RolloutBatchList{}
	err := c.Client.List(ctx, list, client.InNamespace(c.batchNamespace(o)), client.MatchingLabels{v1alpha1.LabelRollout: string(o.GetUID())})
	return list, err
}

// load the plan in the status. It is false where the plan is not that of the spec any more, or some of it is
// missing, so that another one is to be made, and approved (KR-14-52). Batches of other plans are deleted.
func (c *Controller) load(ctx context.Context, o *object, r *run) (bool, error) {
	if o.status.Plan == nil {
		return false, nil
	}
	if r.plan == o.status.Plan.ID && r.generation == o.GetGeneration() && !r.replaced {
		return true, nil
	}
	list, err := c.listBatches(ctx, o)
	if err != nil {
		return false, fmt.Errorf("cannot read the plan: %w", err)
	}
	var of []*v1alpha1.RolloutBatch
	for i := range list.Items {
		b := &list.Items[i]
		if b.Spec.Plan == o.status.Plan.ID {
			of = append(of, sized(b))
			r.keep(b)
		} else if err := c.Client.Delete(ctx, b); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("cannot delete a part of an earlier plan: %w", err)
		}
	}
	slices.SortFunc(of, func(a, b *v1alpha1.RolloutBatch) int { return int(a.Spec.Index - b.Spec.Index) })
	if rollout.ID(o.GetUID(), o.spec, objectsOf(of)) != o.status.Plan.ID {
		return false, nil
	}
	r.plan, r.generation, r.batches, r.replaced = o.status.Plan.ID, o.GetGeneration(), of, false
	return true, nil
}

func objectsOf(batches []*v1alpha1.RolloutBatch) []v1alpha1.RolloutObject {
	var out []v1alpha1.RolloutObject
	for _, b := range batches {
		out = append(out, b.Spec.Objects...)
	}
	return out
}
