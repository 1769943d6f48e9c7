package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
	"github.com/kausality-io/function-kausality/gate/systems"
)

// watchSystems looks again at the objects of external systems that have no
// managementPolicies when what is guarded changed: they may have been passed over.
// Call it before the cluster starts.
func (c *Controller) watchSystems() {
	c.Cluster.Scope.OnChange(func() {
		c.again(func(o *cluster.Object) bool { return systems.For(o.GroupVersionKind) != nil })
	})
	c.Cluster.States.OnUnwatch(func(o *cluster.Object) { c.sights.forget(o.State.Ref) })
}

// foreign reconciles an object of an external system that has no
// managementPolicies. The object is read live: the cache keeps too little of it,
// and such objects are few.
func (c *Controller) foreign(ctx context.Context, o *cluster.Object, s systems.System) (time.Duration, error) {
	if _, unfit := c.unfit.Load(o.GroupVersionKind); unfit {
		return 0, nil
	}
	if i, err := c.Cluster.Kinds.Get(o.GroupVersionKind); err == nil && !c.Cluster.Scope.Watches(i.GVR.GroupResource()) {
		c.sights.forget(o.State.Ref)
		return 0, nil // it is given back, and our access is gone
	}
	r, err := c.Cluster.States.Resource(o.State.Ref)
	if err != nil {
		return 0, err
	}
	u, err := r.Get(ctx, o.State.Name, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		c.sights.forget(o.State.Ref)
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read %s: %w", identity.Describe(o.State.Ref), err)
	}
	live := *o
	live.State = parent.Sum(u, parent.RoleNone)
	g, err := c.gating(ctx, &live)
	if err != nil {
		return 0, err
	}
	view := s.Look(u)
	c.sights.note(live.State.Ref, view)
	d, err := c.decide(ctx, &live, &g, func(g gating.Managed) gating.Decision {
		return gating.Foreign{Managed: g, View: view, System: s.Name()}.Decide()
	})
	if err != nil {
		return 0, err
	}
	if err := c.actForeign(ctx, &live, u, s, d); err != nil {
		return 0, err
	}
	return d.Again, c.report(ctx, &live, g, d)
}

// actForeign on a decision: claim first, then one write of gate annotation,
// memory and field, under the version that was looked at.
func (c *Controller) actForeign(ctx context.Context, o *cluster.Object, u *unstructured.Unstructured, s systems.System, d gating.Decision) error {
	if d.Action == gating.ActionNone {
		return nil
	}
	if err := c.before(ctx, d); err != nil {
		return err
	}
	body := foreignPatch(u, s, d)
	raw, err := json.Marshal(body)
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
	c.tellForeign(o, s, d, s.Look(after).State)
	return nil
}

// foreignPatch for a decision, a merge patch of the object that was looked at.
func foreignPatch(u *unstructured.Unstructured, s systems.System, d gating.Decision) map[string]any {
	annotations := map[string]any{}
	for k, v := range d.Edits {
		if annotations[k] = nil; v != nil {
			annotations[k] = *v
		}
	}
	var edit map[string]any
	switch d.Action {
	case gating.ActionOpen:
		edit = s.Open(u, d.Gate, external.ProvenanceOf(trace.Of(u.GetAnnotations()), u.GetNamespace()))
	case gating.ActionRestore:
		edit = s.Restore(u)
		annotations[v1alpha1.AnnotationKeyExternalAuthor], annotations[v1alpha1.AnnotationKeyGate] = nil, nil
	default:
		edit = s.Close(u)
		annotations[v1alpha1.AnnotationKeyExternalAuthor] = string(s.Author(u))
	}
	if d.Action != gating.ActionRestore && d.Action != gating.ActionMask {
		annotations[v1alpha1.AnnotationKeyGate] = mask.FormatGate(d.Gate)
	}
	body := map[string]any{"metadata": map[string]any{"annotations": annotations, "resourceVersion": u.GetResourceVersion(), "uid": u.GetUID()}}
	for k, v := range edit {
		body[k] = v
	}
	return body
}

// tellForeign of a transition, by an event. A kind that drops the field by which
// it is closed is left alone from then on.
func (c *Controller) tellForeign(o *cluster.Object, s systems.System, d gating.Decision, now external.State) {
	kind, reason, text := corev1.EventTypeNormal, "", ""
	switch d.Action {
	case gating.ActionOpen:
		reason, text = "GateOpened", fmt.Sprintf("The gate is open for %v (%s, difference %q); it closes when %s is done, at the latest in %s.", d.Gate.Verbs, d.Gate.Reason, d.Gate.Digest, s.Name(), c.Deadline)
	case gating.ActionClose:
		reason, text = "GateClosed", fmt.Sprintf("The gate is closed (%s).", d.Gate.Reason)
		if d.Gate.Reason == v1alpha1.GateReasonExpired || d.Gate.Reason == external.OverFailed {
			kind = corev1.EventTypeWarning
		}
	case gating.ActionInstall:
		reason, text = "GateInstalled", "The gate is closed from now on: what "+s.Name()+" would do needs a cause or an approval."
	case gating.ActionMask:
		reason, text = "GateMasked", "The gate is closed again: "+d.Why+"."
	case gating.ActionRestore:
		reason, text = "GateRemoved", "What its author wrote is restored: nothing is gated any more."
	}
	if now == external.StateOpen && d.Action != gating.ActionOpen && d.Action != gating.ActionRestore {
		c.unfit.Store(o.GroupVersionKind, true)
		kind, reason, text = corev1.EventTypeWarning, "GateUnfit", "The gate cannot be closed: this version of "+s.Name()+" drops the field by which it is. Nothing is gated."
		c.Log.Info("a kind cannot be gated: it drops the field by which its gate is closed", "kind", o.GroupVersionKind.String())
	}
	c.count(o, d)
	if d.Gate.Reason == v1alpha1.GateReasonNothing {
		return // it was closed before
	}
	c.emit(o, event{kind, reason, text})
}
