package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/internal/cluster"
)

// reconcileForeign reconciles an object of an external system that has no
// managementPolicies (KR-08-42). The object is read live: the cache keeps only its
// summary, and such objects are few.
func (c *Controller) reconcileForeign(ctx context.Context, o *cluster.Object, s systems.System) (again time.Duration, err error) {
	if c.isUngateable(o.GroupVersionKind) {
		return 0, nil
	}
	if i, err := c.Cluster.Kinds.Get(o.GroupVersionKind); err == nil && !c.Cluster.Scope.Watches(i.GVR.GroupResource()) {
		c.externalStates.forget(o.State.Ref)
		return 0, nil // restored, and our access to it is removed
	}
	r, err := c.Cluster.States.Resource(o.State.Ref)
	if err != nil {
		return 0, err
	}
	u, err := r.Get(ctx, o.State.Name, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		c.externalStates.forget(o.State.Ref)
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read %s: %w", identity.Describe(o.State.Ref), err)
	}
	live := *o
	live.State = parent.Sum(u, parent.RoleNone)
	c.Cluster.States.Trust(live.State)
	g, err := c.gating(ctx, &live)
	if err != nil {
		return 0, err
	}
	view := s.Look(u)
	c.externalStates.note(live.State.Ref, view)
	d, err := c.decide(ctx, &live, &g, func(g gating.Managed) gating.Decision {
		return gating.Foreign{Managed: g, View: view, System: s.Name()}.Decide()
	})
	if err != nil || c.awaitsTurn(&live, d) {
		return d.Again, err
	}
	if err := c.actForeign(ctx, &live, u, s, g, d); err != nil {
		return 0, err
	}
	recorded, err := c.report(ctx, &live, g, d)
	if err != nil {
		return 0, err
	}
	return untilRecorded(recorded, c.announceRemaining(ctx, &live, d, gating.Foreign{Managed: g, View: view, System: s.Name()}.Shadow())), nil
}

// actForeign on a decision about an object of an external system, in one write.
func (c *Controller) actForeign(ctx context.Context, o *cluster.Object, u *unstructured.Unstructured, s systems.System, g gating.Managed,
	d gating.Decision) error {
	if d.Action == gating.ActionNone {
		return nil
	}
	if err := c.prepare(ctx, d); err != nil {
		return err
	}
	d.Edits = c.Cluster.Claims.SealIn(cluster.Sealed(o.State.Ref), d.Edits)
	raw, err := json.Marshal(systems.Patch(u, s, d))
	if err != nil {
		return fmt.Errorf("cannot encode patch: %w", err)
	}
	r, err := c.Cluster.States.Resource(o.State.Ref)
	if err != nil {
		return err
	}
	after, err := r.Patch(ctx, o.State.Name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: v1alpha1.ManagerGate})
	if kerrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	c.announceForeign(o, s, g, d, s.Look(after).State)
	return nil
}
