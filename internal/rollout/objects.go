package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/rollout"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// maxTries bounds the lost races of one write.
const maxTries = 5

// ref of an object of a plan.
func ref(o *v1alpha1.RolloutObject) parent.Ref {
	return parent.Ref{GroupVersionKind: schema.FromAPIVersionAndKind(o.APIVersion, o.Kind), Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

func describe(o *v1alpha1.RolloutObject) string {
	return o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

// approveObject gives its differences the votes for the plan: in one write, and only those differences that still wait
// as they did when the plan was made. It may be repeated: what the plan approved before is not approved again.
func (c *Controller) approveObject(ctx context.Context, o *object, of *v1alpha1.RolloutObject,
	others map[types.UID][]string,
) (v1alpha1.RolloutState, string, error) {
	open, landed, why, err := c.waiting(ctx, of, others)
	switch {
	case err != nil:
		return "", "", err
	case len(open) == 0 && why == "" && landed > 0:
		return v1alpha1.RolloutObjectDone, "", nil
	case len(open) == 0:
		return v1alpha1.RolloutObjectLeftOut, why, nil
	}
	for try := range maxTries {
		p, err := c.Cluster.States.Get(ctx, ref(of), try > 0)
		if errors.Is(err, admission.ErrNotFound) {
			return v1alpha1.RolloutObjectLeftOut, "it does not exist any more", nil
		}
		if err != nil {
			return "", "", fmt.Errorf("cannot read %s: %w", describe(of), err)
		}
		claims, refused := c.given(o, p, open)
		if refused != "" {
			return v1alpha1.RolloutObjectLeftOut, refused, nil
		}
		if value := claims.String(); !approval.Same(value, p.Annotations[v1alpha1.AnnotationKeyClaims]) {
			// By its version: where not all claims count, those that p has are not those that are stored.
			err = c.Cluster.States.Apply(ctx, p.State.Ref, states.Patch{Manager: v1alpha1.ManagerWebhook, ResourceVersion: p.ResourceVersion,
				Annotations: map[string]*string{v1alpha1.AnnotationKeyClaims: &value}})
		}
		switch {
		case err == nil:
			return v1alpha1.RolloutObjectApproved, why, nil
		case kerrors.IsNotFound(err):
			return v1alpha1.RolloutObjectLeftOut, "it does not exist any more", nil
		case !kerrors.IsInvalid(err) && !kerrors.IsConflict(err):
			return "", "", fmt.Errorf("cannot approve changes on %s: %w", describe(of), err)
		}
	}
	return "", "", fmt.Errorf("cannot approve changes on %s: lost %d races for its claims", describe(of), maxTries)
}

// given claims of an object, with the votes for the plan.
func (c *Controller) given(o *object, p *states.Object, open []string) (claims approval.Claims, refused string) {
	claims = approval.ParseClaims(p.Annotations[v1alpha1.AnnotationKeyClaims])
	votes := make([]v1alpha1.Vote, 0, len(o.status.Votes))
	for _, v := range o.status.Votes {
		v.Via = rollout.Via
		votes = append(votes, v)
	}
	for _, id := range open {
		claims, refused = claims.Give(o.approval(id), votes, p.Generation, clock.Now())
		if refused != "" {
			return claims, refused
		}
	}
	return claims, ""
}

// approval of a difference by the plan.
func (o *object) approval(id string) v1alpha1.Approval {
	return v1alpha1.Approval{Digest: id, Reason: rollout.Reason(o.kind, o.GetNamespace(), o.GetName(), o.status.Plan.ID)}
}

// waiting differences of an object: the ids of those that wait as the plan has them, how many have landed, and why
// others are left out. others are the open differences by the UIDs of their parents.
func (c *Controller) waiting(ctx context.Context, of *v1alpha1.RolloutObject,
	others map[types.UID][]string,
) (open []string, landed int, why string, err error) {
	for _, difference := range of.Differences {
		d, err := c.drift(ctx, difference)
		switch {
		case err != nil:
			return nil, 0, "", err
		case d == nil || d.Status.Phase != v1alpha1.DriftDetected:
			landed++
		case !rollout.Occurrence(d).Equal(difference.Since):
			why = "difference " + difference.ID + " has occurred again since the plan was made"
		default:
			open = append(open, difference.ID)
		}
	}
	for _, id := range others[of.UID] {
		if landed > 0 && why == "" && !slices.ContainsFunc(of.Differences, func(d v1alpha1.RolloutDifference) bool { return d.ID == id }) {
			why = "difference " + id + " waits now in place of one of the plan"
		}
	}
	return open, landed, why, nil
}

// open differences by the UIDs of their parents, from the cache.
func (c *Controller) open(ctx context.Context) (map[types.UID][]string, error) {
	list := &v1alpha1.DriftList{}
	if err := c.Drifts.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil { // the items are the cache's, and only read
		return nil, fmt.Errorf("cannot list drifts: %w", err)
	}
	out := map[types.UID][]string{}
	for i := range list.Items {
		if d := &list.Items[i]; d.Status.Phase == v1alpha1.DriftDetected {
			out[d.Spec.Parent.UID] = append(out[d.Spec.Parent.UID], d.Spec.ID)
		}
	}
	return out, nil
}

// observe the health of what is let through of the wave.
func (c *Controller) observe(ctx context.Context, o *object, r *run) {
	var below map[types.UID][]*states.Object
	r.each(o.status.Wave, func(object *v1alpha1.RolloutObject, s *v1alpha1.RolloutObjectStatus) bool {
		if s.State != v1alpha1.RolloutObjectApproved && s.State != v1alpha1.RolloutObjectDone {
			return true
		}
		if below == nil {
			below = c.below()
		}
		s.State, s.Reason = c.health(ctx, o, object, below)
		return ctx.Err() == nil
	})
}

// health of an object that was let through (KR-14-54): the change has landed, it is Synced and Ready, and all gates below it are closed.
func (c *Controller) health(ctx context.Context, o *object, of *v1alpha1.RolloutObject,
	below map[types.UID][]*states.Object,
) (v1alpha1.RolloutState, string) {
	p, err := c.Cluster.States.Get(ctx, ref(of), false)
	if errors.Is(err, admission.ErrNotFound) {
		return v1alpha1.RolloutObjectLeftOut, "it does not exist any more"
	}
	if err != nil {
		return v1alpha1.RolloutObjectApproved, "it cannot be read: " + err.Error()
	}
	claims := approval.ParseClaims(p.Annotations[v1alpha1.AnnotationKeyClaims])
	for _, difference := range of.Differences {
		d, err := c.drift(ctx, difference)
		if err != nil {
			return v1alpha1.RolloutObjectApproved, err.Error()
		}
		if given := claims.Given(o.approval(difference.ID)); given != nil && !given.Spent() {
			return v1alpha1.RolloutObjectApproved, "the approval of difference " + difference.ID + " is not used yet"
		}
		if d != nil && d.Status.Phase == v1alpha1.DriftDetected {
			reason := "difference " + difference.ID + " has not landed yet"
			if d.Status.Lacks != "" {
				reason += ": " + d.Status.Lacks
			}
			return v1alpha1.RolloutObjectApproved, reason
		}
	}
	if !p.Converged {
		return v1alpha1.RolloutObjectApproved, notReady(p)
	}
	for _, mr := range below[of.UID] {
		if mask.ParseGate(mr.Annotations).State == v1alpha1.GateOpen {
			return v1alpha1.RolloutObjectApproved, "the gate of " + identity.Describe(mr.State.Ref) + " is open"
		}
	}
	return v1alpha1.RolloutObjectDone, ""
}

func notReady(p *states.Object) string {
	for _, t := range []string{"Synced", "Ready"} {
		if !p.Crossplane() || p.True(t) {
			continue
		}
		c, has := p.Condition(t)
		switch {
		case !has:
			return "it has no condition " + t
		case c.Reason != "":
			return fmt.Sprintf("%s is not True (%s)", t, c.Reason)
		default:
			return t + " is not True"
		}
	}
	return "its status does not report it as current"
}

// below returns the managed resources by the UIDs of their parents, and those without a parent by their own.
func (c *Controller) below() map[types.UID][]*states.Object {
	out := map[types.UID][]*states.Object{}
	for _, i := range c.Cluster.Kinds.All() {
		if !i.Kind.ManagementPolicies {
			continue
		}
		for _, o := range c.Cluster.States.List(i.GVK) {
			out[o.State.UID] = append(out[o.State.UID], o)
			if o.Parent.UID != "" {
				out[o.Parent.UID] = append(out[o.Parent.UID], o)
			}
		}
	}
	return out
}
