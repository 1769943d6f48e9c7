package gate

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
	"github.com/kausality-io/function-kausality/internal/drift"
	"github.com/kausality-io/function-kausality/internal/records"
)

// reporter is how users learn of gates: by Drifts and their reports, by events, records and metrics. It is safe for concurrent use.
type reporter struct {
	drifts client.Client
	drift  *drift.Reporter
	events events.EventRecorder
	// records of transitions; nil where none are kept.
	records *records.Recorder
	log     logr.Logger

	// remaining differences of external resources, for their events.
	remaining byRef[remainingEvent]
	// shadows are the generations at which nothing differed last of managed resources in mode log. A restarted process learns them again.
	shadows byRef[int64]
	// externalStates of objects of external systems without their UIDs, as of their last reconcile, for metrics: their summaries in the cache
	// have no differences.
	externalStates byRef[externalState]
}

// forget an object that is gone, or not watched any more.
func (r *reporter) forget(ref parent.Ref) {
	r.externalStates.forget(withoutUID(ref))
	r.remaining.forget(ref)
	r.shadows.forget(ref)
}

// childIndex finds the Drifts of an MR by its UID.
const childIndex = "spec.child.uid"

// indexChild is the index function for childIndex.
func indexChild(o client.Object) []string {
	d, ok := o.(*v1alpha1.Drift)
	if !ok || d.Spec.Relation != v1alpha1.RelationExternal || d.Spec.Operation != "" {
		return nil
	}
	return []string{string(d.Spec.Child.UID)}
}

// recordAgain is when an object without a recorded Drift is reconciled again. It is longer than the time for which a
// Reporter only counts what it was given before.
const recordAgain = 70 * time.Second

// untilRecorded returns when to reconcile again: after again, 0 for never, or sooner while a Drift is not recorded.
func untilRecorded(recorded bool, again time.Duration) time.Duration {
	if recorded || again > 0 && again < recordAgain {
		return again
	}
	return recordAgain
}

// report the external drift of an object, and resolve the Drifts of differences
// that are gone (KR-10-05). recorded is false where a Drift is to be written and does not exist yet: the Reporter may fail
// to write it, and the object need not change again (KR-10-11).
func (r *reporter) report(ctx context.Context, o *states.Object, g gating.Managed, d gating.Decision) (recorded bool, err error) {
	list := &v1alpha1.DriftList{}
	if err := r.drifts.List(ctx, list, client.MatchingFields{childIndex: string(o.State.UID)}); err != nil {
		return false, fmt.Errorf("cannot list drifts: %w", err)
	}
	counted := *o
	counted.External.Difference = g.Difference // without what is ignored
	for i := range list.Items {
		have := &list.Items[i]
		if have.Status.Phase != v1alpha1.DriftDetected {
			continue
		}
		if d.Drift != nil && d.Drift.ID == have.Spec.ID {
			recorded = true
			continue
		}
		why := resolution(have, &counted, d)
		if err := r.drift.Resolve(ctx, have, why, approvalOf(have, why, g.Holders, d)); err != nil {
			return false, err
		}
	}
	if d.Drift == nil {
		return true, nil
	}
	owner := g.Owner()
	set := approval.Parse(owner.Annotations)
	r.drift.Enqueue(drift.Item{
		Report: &admission.Report{
			Drift: *d.Drift, ParentRef: owner.Ref, Parent: owner,
			Snoozed: set.Snoozed(g.Now), Recurs: set.UsedFor(d.Drift.ID), Votes: d.Votes, Lacks: d.Lacks,
		},
	})
	return recorded, nil
}

// resolution returns why a Drift is resolved, for its status.
func resolution(have *v1alpha1.Drift, o *states.Object, d gating.Decision) string {
	gate := mask.ParseGate(o.Annotations)
	switch {
	case d.Action == gating.ActionOpen && d.Gate.Digest == have.Spec.ID, gate.Digest == have.Spec.ID:
		return settling.WhyApproved
	case len(o.External.Difference) == 0 && !o.External.Gone:
		return "the external resource is as it should be"
	}
	return "the difference is another one now"
}

// approvalOf returns the approval by which a Drift is resolved: the one that opens the gate, or has opened it; nil for none.
func approvalOf(have *v1alpha1.Drift, why string, holders []identity.Holder, d gating.Decision) *v1alpha1.HopApproval {
	switch {
	case why != settling.WhyApproved:
		return nil
	case d.Approval != nil && d.Approval.Digest == have.Spec.ID:
		return d.Approval
	}
	return settling.ApprovalOf(have, nil, statesOf(holders)...)
}

// statesOf holders.
func statesOf(holders []identity.Holder) []*parent.State {
	out := make([]*parent.State, 0, len(holders))
	for _, h := range holders {
		out = append(out, h.State)
	}
	return out
}

// record a transition that was written.
func (r *reporter) record(o *states.Object, g gating.Managed, d gating.Decision) {
	if !r.records.Enabled() {
		return
	}
	t := transitionOf(o, mask.ParseGate(o.Annotations), d.Gate)
	t.Claims = map[parent.Ref]string{}
	for _, h := range g.Holders {
		t.Claims[h.State.Ref] = h.State.Annotations[v1alpha1.AnnotationKeyClaims]
	}
	if d.Claim != nil {
		t.Claims[d.Claim.Holder] = d.Claim.Value
	}
	if own := d.Edits[v1alpha1.AnnotationKeyClaims]; own != nil {
		t.Claims[o.State.Ref] = *own
	}
	r.records.Add(records.OfTransition(t))
}

// transitionOf the gate of an object.
func transitionOf(o *states.Object, was, is v1alpha1.Gate) records.Transition {
	return records.Transition{Object: o.State, External: o.ExternalName, Was: was, Is: is, At: clock.Now()}
}

// was returns the gate of an object before a change; the zero Gate if the object was not known.
func was(old *states.Object) v1alpha1.Gate {
	if old == nil {
		return v1alpha1.Gate{}
	}
	return mask.ParseGate(old.Annotations)
}
