package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// foreign reconciles objects of external systems.
type foreign struct {
	*core
	// ungateable kinds drop the field that closes the gate; the keys are schema.GroupVersionKinds.
	ungateable *sync.Map
}

// isUngateable reports whether the objects of a kind cannot be gated.
func (f *foreign) isUngateable(gvk schema.GroupVersionKind) bool {
	_, is := f.ungateable.Load(gvk)
	return is
}

// reconcile an object of an external system that has no managementPolicies (KR-08-42). The object is read live: the cache keeps only its
// summary, and such objects are few.
func (f *foreign) reconcile(ctx context.Context, o *states.Object, s systems.System) (again time.Duration, err error) {
	if f.isUngateable(o.GroupVersionKind) { // a process that starts later tries again
		return 0, nil
	}
	if i, err := f.cluster.Kinds.Get(o.GroupVersionKind); err == nil && !f.cluster.Scope.Watches(i.GVR.GroupResource()) {
		f.reporter.externalStates.forget(withoutUID(o.State.Ref))
		return 0, nil // restored, and our access to it is removed; a change of what is guarded brings it back
	}
	r, err := f.cluster.States.Resource(o.State.Ref)
	if err != nil {
		return 0, err
	}
	u, err := r.Get(ctx, o.State.Name, metav1.GetOptions{})
	if kerrors.IsNotFound(err) { // its watch has yet to show that, and shows it if it is created again
		f.reporter.externalStates.forget(withoutUID(o.State.Ref))
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read %s: %w", identity.Describe(o.State.Ref), err)
	}
	live := *o
	live.State = parent.Sum(u, parent.RoleNone)
	f.cluster.States.Trust(live.State)
	g, err := f.gating(ctx, &live)
	if err != nil {
		return 0, err
	}
	view := s.Look(u)
	f.reporter.externalStates.note(withoutUID(live.State.Ref), stateOf(view))
	d, err := f.decide(ctx, &live, &g, func(g gating.Managed) gating.Decision {
		return gating.Foreign{Managed: g, View: view, System: s.Name()}.Decide()
	})
	if err != nil || f.awaitsTurn(&live, d) { // its turn brings it back
		return d.Again, err
	}
	if err := f.act(ctx, &live, u, s, g, d); err != nil {
		return 0, err
	}
	recorded, err := f.reporter.report(ctx, &live, g, d)
	if err != nil {
		return 0, err
	}
	return untilRecorded(recorded, f.reporter.announceRemaining(ctx, &live, d, gating.Foreign{Managed: g, View: view, System: s.Name()}.Shadow())), nil
}

// act on a decision about an object of an external system, in one write.
func (f *foreign) act(ctx context.Context, o *states.Object, u *unstructured.Unstructured, s systems.System, g gating.Managed,
	d gating.Decision) error {
	if d.Action == gating.ActionNone { // a change, or d.Again
		return nil
	}
	if err := f.prepare(ctx, d); err != nil {
		return err
	}
	d.Edits = f.cluster.Claims.SealIn(states.Sealed(o.State.Ref), d.Edits)
	raw, err := json.Marshal(systems.Patch(u, s, d))
	if err != nil {
		return fmt.Errorf("cannot encode patch: %w", err)
	}
	r, err := f.cluster.States.Resource(o.State.Ref)
	if err != nil {
		return err
	}
	after, err := r.Patch(ctx, o.State.Name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: v1alpha1.ManagerGate})
	if kerrors.IsNotFound(err) { // its watch shows it if it is created again
		return nil
	}
	if err != nil {
		return err
	}
	f.announce(o, s, g, d, s.Look(after).State)
	return nil
}

// announce a transition of an external system's gate that was written. now is
// the state after the write. If the gate is open although the write closed it, the
// kind is not gated any more.
func (f *foreign) announce(o *states.Object, s systems.System, g gating.Managed, d gating.Decision, now external.State) {
	f.reporter.record(o, g, d)
	f.reporter.count(o, d)
	if now == external.StateOpen && d.Action != gating.ActionOpen && d.Action != gating.ActionRestore {
		f.ungateable.Store(o.GroupVersionKind, true)
		f.reporter.log.Info("cannot gate a kind: the installed CRD prunes the field that closes the gate", "kind", o.GroupVersionKind.String(), "field", s.Field())
		if d.Gate.Reason != v1alpha1.GateReasonNothing {
			f.reporter.emit(o, warning(reasonGateUnfit, "Cannot gate this kind: the installed CRD of %s prunes %s. Its objects are not protected.", s.Name(), s.Field()))
		}
		return
	}
	if d.Gate.Reason != v1alpha1.GateReasonNothing { // else it was closed before
		f.reporter.emit(o, eventOfForeign(s, d, g.Deadline))
	}
	f.reporter.announceClaims(o, o.State, d.Edits)
}
