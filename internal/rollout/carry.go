package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/rollout"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	// chunk is how many objects are let through between two looks at the Rollout: so many pass after it was
	// stopped, at the most.
	chunk = 100
	// writers let objects through at the same time.
	writers = 8
	// maxReasons is how many objects a status names.
	maxReasons = 10
	// pendingPoll is how often a Rollout that waits for votes is compared with what waits: other changes may by then.
	pendingPoll = 10 * time.Second
)

// carryOut what comes next of a Rollout. Its status is changed in o, and written by the caller.
func (c *Controller) carryOut(ctx context.Context, o *object, r *run) (again time.Duration, err error) {
	o.status.ObservedGeneration = o.GetGeneration()
	if errs := rollout.Invalid(o.spec, o.GetNamespace()); len(errs) > 0 {
		o.status.Phase, o.status.Message = v1alpha1.RolloutInvalid, errs[0]
		return 0, nil
	}
	planned, err := c.load(ctx, o, r)
	if err != nil || planned && o.status.Phase == v1alpha1.RolloutCompleted {
		return 0, err
	}
	empty, err := c.renew(ctx, o, r, planned)
	if err != nil {
		return 0, err
	}
	if empty {
		return pollEvery, nil
	}
	if err := c.takeVotes(ctx, o); err != nil {
		return 0, err
	}
	return c.step(ctx, o, r)
}

// renew makes the plan if there is no plan, if nothing waited for it, or if it is old and has no vote. It reports whether the plan stays
// empty.
func (c *Controller) renew(ctx context.Context, o *object, r *run, planned bool) (empty bool, err error) {
	from := client.Reader(c.Client) // the user has seen what waits by now; the cache may not
	switch {
	case planned && o.status.Plan.Objects == 0:
		empty, from = true, c.Drifts
	case planned && (o.status.Phase != v1alpha1.RolloutPending || len(o.status.Votes) > 0 || clock.Since(o.status.Plan.MadeAt.Time) < renewAfter):
		return false, nil
	}
	pending, err := c.pending(ctx, o, from)
	if err != nil || empty && len(pending) == 0 {
		return empty, err
	}
	return false, c.plan(ctx, o, r, pending)
}

// takeVotes removes the annotations of votes that are stored.
func (c *Controller) takeVotes(ctx context.Context, o *object) error {
	edits := approval.Counted(o.GetAnnotations())
	if len(edits) == 0 {
		return nil
	}
	before := o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is a Rollout.
	annotations := o.GetAnnotations()
	for k := range edits {
		delete(annotations, k)
	}
	o.SetAnnotations(annotations)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	status := o.status.DeepCopy()
	if err := c.Client.Patch(ctx, o.Object, patch, client.FieldOwner(v1alpha1.ManagerWebhook)); err != nil {
		return err
	}
	*o.status = *status // the answer has the stored one
	return nil
}

// step carries out the next step of a Rollout that has a plan.
func (c *Controller) step(ctx context.Context, o *object, r *run) (time.Duration, error) {
	votes, lacks, err := c.votes(ctx, o, r)
	if err != nil {
		return 0, err
	}
	o.status.Votes, o.status.Lacks = votes, lacks
	objects := objectsOf(r.batches)
	if len(objects) == 0 {
		o.status.Phase, o.status.Message, o.status.Lacks = v1alpha1.RolloutPending, "nothing waits for this cause", ""
		return pollEvery, nil
	}
	if lacks == "" && o.status.ThroughAt != nil { // before, each chunk would be another look at all of the wave
		c.observe(ctx, o, r)
	}
	next := c.next(o, r)
	if next.Overdue {
		overdue(r, o.status.Wave)
	}
	if next.Wave != o.status.Wave {
		o.status.Wave, o.status.ThroughAt = next.Wave, nil
	}
	if next.Approve {
		if err := c.approve(ctx, o, r); err != nil {
			return 0, err
		}
	}
	if err := c.writeBatches(ctx, r); err != nil {
		return 0, err
	}
	c.summarize(o, r)
	o.status.Phase, o.status.Message = next.Phase, next.Message
	again := next.Again
	if w := next.Wave; next.Approve {
		if left := o.status.Waves[w-1].Waiting; left > 0 {
			again = time.Millisecond
		} else if o.status.ThroughAt == nil {
			o.status.ThroughAt = new(metav1.NewTime(clock.Now().Truncate(time.Second)))
		}
	}
	if next.Phase == v1alpha1.RolloutPending {
		again = pendingPoll
	}
	return again, nil
}

// next step by the states as they are.
func (c *Controller) next(o *object, r *run) rollout.Step {
	p := rollout.Progress{Spec: o.spec, Lacks: o.status.Lacks, Wave: o.status.Wave, Began: r.began, Waves: waves(o, r), Now: clock.Now()}
	if o.status.ThroughAt != nil {
		p.ThroughAt = o.status.ThroughAt.Time
	}
	return p.Next()
}

func waves(o *object, r *run) []v1alpha1.RolloutWaveStatus {
	var states []v1alpha1.RolloutObjectStatus
	for _, b := range r.batches {
		states = append(states, b.Status.Objects...)
	}
	return rollout.Count(len(o.spec.Waves), objectsOf(r.batches), states)
}

// each object of a wave, with its state, for f to change.
func (r *run) each(wave int32, f func(*v1alpha1.RolloutObject, *v1alpha1.RolloutObjectStatus) bool) {
	for _, b := range r.batches {
		for i := range b.Spec.Objects {
			if (wave == 0 || b.Spec.Objects[i].Wave == wave) && !f(&b.Spec.Objects[i], &b.Status.Objects[i]) {
				return
			}
		}
	}
}

// overdue objects of a wave: those that are not healthy count as unhealthy from now on.
func overdue(r *run, wave int32) {
	r.each(wave, func(_ *v1alpha1.RolloutObject, s *v1alpha1.RolloutObjectStatus) bool {
		if s.State == v1alpha1.RolloutObjectApproved {
			s.State = v1alpha1.RolloutObjectUnhealthy
		}
		return true
	})
}

// unknownAuthors is after what time the authors of a plan are determined again where one was not known.
const unknownAuthors = time.Minute

// answer to what the votes for a plan lack.
type answer struct {
	plan     string
	policies *allowance.Set
	changes  []allowance.Change
	authors  []string
	at       time.Time
}

// holds reports whether the answer is still that for a plan and policies.
func (a *answer) holds(plan string, policies *allowance.Set, now time.Time) bool {
	return a.plan == plan && a.policies == policies && (!slices.Contains(a.authors, "") || now.Before(a.at.Add(unknownAuthors)))
}

// votes for the plan, and what they lack.
func (c *Controller) votes(ctx context.Context, o *object, r *run) (votes []v1alpha1.Vote, lacks string, err error) {
	set := c.Policies()
	if set == nil {
		return nil, "", fmt.Errorf("the policies are not read yet, or cannot be read")
	}
	if a := &r.lacking; !a.holds(r.plan, set, clock.Now()) {
		if *a, err = c.changes(ctx, r, set); err != nil {
			return nil, "", err
		}
	}
	annotations := c.Cluster.Claims.Trusted(o.sealed(), o.GetAnnotations(), clock.Now())
	votes, lacks = rollout.Votes(annotations, o.status.Plan.ID, clock.Now(), func(votes []v1alpha1.Vote) (string, bool) {
		return rollout.Lacks(set, r.lacking.changes, allowance.Authors{Names: r.lacking.authors}, votes, clock.Now())
	})
	return votes, lacks, nil
}

// changes of a plan as ApprovalRules see them, from its Drifts; one that is gone matters no more.
func (c *Controller) changes(ctx context.Context, r *run, set *allowance.Set) (answer, error) {
	out := answer{plan: r.plan, policies: set, at: clock.Now()}
	if !set.HasRules() {
		return out, nil
	}
	var failed error
	r.each(0, func(object *v1alpha1.RolloutObject, _ *v1alpha1.RolloutObjectStatus) bool {
		failed = changesOf(ctx, c, object, &out)
		return failed == nil
	})
	slices.Sort(out.authors)
	out.authors = slices.Compact(out.authors)
	return out, failed
}

// changesOf one object of a plan, and their authors. What is not in a watch is read: the answer is kept for as long as the plan is.
func changesOf(ctx context.Context, c *Controller, object *v1alpha1.RolloutObject, out *answer) error {
	p, err := stateOf(ctx, c, ref(object))
	if err != nil {
		return err
	}
	for _, difference := range object.Differences {
		d, err := c.drift(ctx, difference)
		if err != nil {
			return err
		}
		if d == nil {
			continue
		}
		var own map[string]string
		if d.Spec.Operation != string(admission.Create) {
			child, err := c.Cluster.States.Look(ctx, identity.Ref(d.Spec.Child))
			switch {
			case err == nil:
				own = child.Labels
			case !errors.Is(err, admission.ErrNotFound) && !meta.IsNoMatchError(err):
				return fmt.Errorf("cannot read %s: %w", identity.Describe(identity.Ref(d.Spec.Child)), err)
			}
		}
		change := rollout.ChangeOf(&d.Spec, own)
		change.NamespaceLabels = c.Cluster.Namespaces.Labels(change.Namespace)
		out.changes = append(out.changes, change)
		var initiators []string
		if p != nil {
			initiators = trace.Authors(p.Annotations, rollout.HeldSince(d, p))
		}
		out.authors = append(out.authors, rollout.Authors(&d.Spec, initiators)...)
	}
	return nil
}

// drift that shows a difference, from the cache; nil where it is gone.
func (c *Controller) drift(ctx context.Context, of v1alpha1.RolloutDifference) (*v1alpha1.Drift, error) {
	d := &v1alpha1.Drift{}
	err := c.Drifts.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Drift}, d)
	if kerrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // See above.
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read a drift: %w", err)
	}
	return d, nil
}

// approve objects of the wave that wait, at most a chunk of them.
func (c *Controller) approve(ctx context.Context, o *object, r *run) error {
	type work struct {
		object *v1alpha1.RolloutObject
		status *v1alpha1.RolloutObjectStatus
	}
	var todo []work
	r.each(o.status.Wave, func(object *v1alpha1.RolloutObject, s *v1alpha1.RolloutObjectStatus) bool {
		if s.State == v1alpha1.RolloutObjectWaiting {
			todo = append(todo, work{object, s})
		}
		return len(todo) < chunk
	})
	others, err := c.open(ctx)
	if err != nil {
		return err
	}
	var all errgroup.Group
	all.SetLimit(writers)
	for _, w := range todo {
		all.Go(func() error {
			state, reason, err := c.approveObject(ctx, o, w.object, others)
			if err == nil {
				w.status.State, w.status.Reason = state, reason
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		// What was let through is not let through twice: the approvals are those of the plan.
		if written := c.writeBatches(ctx, r); written != nil {
			return written
		}
		return err
	}
	return nil
}

// writeBatches with changed states.
func (c *Controller) writeBatches(ctx context.Context, r *run) error {
	for _, b := range r.batches {
		stored := r.stored[b.UID]
		if equality.Semantic.DeepEqual(stored, b.Status.Objects) {
			continue
		}
		if err := c.Client.Status().Update(ctx, b, client.FieldOwner(v1alpha1.ManagerWebhook)); err != nil {
			return fmt.Errorf("cannot write how far the rollout is: %w", err)
		}
		r.keep(b)
	}
	return nil
}

// keep what is stored of a batch.
func (r *run) keep(b *v1alpha1.RolloutBatch) {
	if r.stored == nil {
		r.stored = map[types.UID][]v1alpha1.RolloutObjectStatus{}
	}
	r.stored[b.UID] = slices.Clone(b.Status.Objects)
}

// summarize how far a Rollout is in its status.
func (c *Controller) summarize(o *object, r *run) {
	s := o.status
	s.Waves, s.Done, s.Unhealthy, s.LeftOut = waves(o, r), 0, nil, nil
	for _, w := range s.Waves {
		s.Done += w.Done
	}
	r.each(0, func(object *v1alpha1.RolloutObject, state *v1alpha1.RolloutObjectStatus) bool {
		switch one := (v1alpha1.RolloutObjectReason{Object: describe(object), Reason: state.Reason}); state.State {
		case v1alpha1.RolloutObjectUnhealthy, v1alpha1.RolloutObjectApproved:
			if object.Wave == s.Wave && len(s.Unhealthy) < maxReasons && state.Reason != "" {
				s.Unhealthy = append(s.Unhealthy, one)
			}
		case v1alpha1.RolloutObjectLeftOut:
			if len(s.LeftOut) < maxReasons {
				s.LeftOut = append(s.LeftOut, one)
			}
		case v1alpha1.RolloutObjectWaiting, v1alpha1.RolloutObjectDone:
		}
		return true
	})
}
