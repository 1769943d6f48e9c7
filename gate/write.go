package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/carry"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/drift"
)

// patch of an MR for a decision: policies, the author's value and the gate
// annotation in one (KR-08-23).
func patch(o *cluster.Object, d gating.Decision) cluster.Patch {
	p := cluster.Patch{Manager: v1alpha1.ManagerGate, ResourceVersion: o.ResourceVersion, ManagementPolicies: d.Policies, Annotations: map[string]*string{}}
	maps.Copy(p.Annotations, d.Edits)
	if d.Action == gating.ActionRestore {
		p.Annotations[v1alpha1.AnnotationKeyManagementPolicies] = nil
		p.Annotations[v1alpha1.AnnotationKeyGate] = nil
		return p
	}
	maps.Copy(p.Annotations, d.Annotations)
	author, gate := mask.FormatAuthor(d.Author), mask.FormatGate(d.Gate)
	p.Annotations[v1alpha1.AnnotationKeyManagementPolicies] = &author
	p.Annotations[v1alpha1.AnnotationKeyGate] = &gate
	if d.Gate.State == v1alpha1.GateOpen && !isOpenAs(o, d) {
		at := clock.Now().UTC().Format(time.RFC3339Nano)
		p.Annotations[v1alpha1.AnnotationKeyReconcileRequestedAt] = &at
	}
	return p
}

// carry adds to the patch that opens a gate what takes its cause to the outside, and what it is open for (KR-08-62). The object is read for it, which the
// cache does not have whole; the patch conflicts where it has changed since.
func (c *Controller) carry(ctx context.Context, o *cluster.Object, g gating.Managed, d gating.Decision, p *cluster.Patch) error {
	s := c.Cluster.Settings(o.State.Ref, o.State.Labels)
	if d.Action != gating.ActionOpen || len(s.Provenance)+len(c.Provenance) == 0 {
		return nil
	}
	content, err := c.Cluster.States.Content(ctx, o.State.Ref)
	if err != nil || content == nil {
		return err
	}
	name, value, warnings := carry.OpenedBy(&unstructured.Unstructured{Object: content}, s, c.Provenance, d.Gate, gating.LastEndOf(d.Gate, g.Deadline))
	if name != "" {
		p.ForProvider = map[string]any{name: value}
	}
	for _, w := range warnings {
		c.Log.Info("Cannot record the cause of an opening outside", "object", identity.Describe(o.State.Ref), "why", w)
	}
	return nil
}

// isOpenAs reports whether a gate is open already as a decision leaves it: what is recorded beside that needs no reconcile of the
// provider, whose status would be two more events for Crossplane's circuit breaker (KR-04-18).
func isOpenAs(o *cluster.Object, d gating.Decision) bool {
	return !mask.Opens(mask.ParseGate(o.Annotations), d.Gate) && slices.Equal(o.ManagementPolicies, d.Policies)
}

// finish the claim of a gate that closed: its approval is used (KR-05-33).
func (c *Controller) finish(ctx context.Context, o *cluster.Object, holders []identity.Holder) error {
	for _, h := range holders {
		if claim := gating.ClaimToFinish(o.State, h.State); claim != nil {
			edits, err := c.spend(ctx, h.State, *claim)
			if err == nil {
				c.announceClaims(o, h.State, edits)
			}
			return err
		}
	}
	return nil
}

// spend an approval: its entry is removed, and its record stays (KR-05-35).
func (c *Controller) spend(ctx context.Context, holder *parent.State, claim v1alpha1.Claim) (edits map[string]*string, err error) {
	edits = gating.Spend(holder.Annotations, claim, clock.Now())
	err = c.Cluster.States.Apply(ctx, holder.Ref, cluster.Patch{Manager: v1alpha1.ManagerGate, ResourceVersion: holder.ResourceVersion, Annotations: edits})
	if kerrors.IsNotFound(err) {
		return nil, nil
	}
	return edits, err
}

// reconcileHolder reconciles an object that holds approvals: it enqueues the gated
// objects below it, and finishes the claims of those that are gone.
func (c *Controller) reconcileHolder(ctx context.Context, o *cluster.Object) error {
	for _, ref := range c.Cluster.Below(o.State) {
		c.enqueue(ref)
	}
	if len(o.Children) == 0 && hasDecisions(o) { // only Crossplane's kinds name their children
		c.recheck(func(mr *cluster.Object) bool { return mr.Parent.UID == o.State.UID })
	}
	for _, claim := range approval.ParseClaims(o.Annotations[v1alpha1.AnnotationKeyClaims]) {
		if claim.State != v1alpha1.ClaimPending || claim.Relation != v1alpha1.RelationExternal || claim.Child == nil {
			continue
		}
		_, err := c.Cluster.States.Get(ctx, parent.Ref{
			GroupVersionKind: schema.FromAPIVersionAndKind(claim.Child.APIVersion, claim.Child.Kind),
			Namespace:        claim.Child.Namespace, Name: claim.Child.Name, UID: claim.Child.UID,
		}, true)
		if errors.Is(err, admission.ErrNotFound) {
			_, err := c.spend(ctx, o.State, claim)
			return err
		}
		if err != nil {
			return fmt.Errorf("cannot read the child of a claim: %w", err)
		}
	}
	return nil
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

// recordAgain is when an object is reconciled again whose Drift does not exist yet. It is longer than the time for which a
// Reporter only counts what it was given before.
const recordAgain = 70 * time.Second

// untilRecorded is when to look again: at again, 0 for never, or sooner while a Drift is not recorded.
func untilRecorded(recorded bool, again time.Duration) time.Duration {
	if recorded || again > 0 && again < recordAgain {
		return again
	}
	return recordAgain
}

// report the external drift of an object, and resolve the Drifts of differences
// that are gone (KR-10-05). recorded is false where a Drift is to be written and does not exist yet: the Reporter may fail
// to write it, and the object need not change again (KR-10-11).
func (c *Controller) report(ctx context.Context, o *cluster.Object, g gating.Managed, d gating.Decision) (recorded bool, err error) {
	list := &v1alpha1.DriftList{}
	if err := c.Drifts.List(ctx, list, client.MatchingFields{childIndex: string(o.State.UID)}); err != nil {
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
		if err := c.Reporter.Resolve(ctx, have, why, approvalOf(have, why, g.Holders, d)); err != nil {
			return false, err
		}
	}
	if d.Drift == nil {
		return true, nil
	}
	owner := g.Owner()
	set := approval.Parse(owner.Annotations)
	c.Reporter.Enqueue(drift.Item{
		Report: &admission.Report{
			Drift: *d.Drift, ParentRef: owner.Ref, Parent: owner,
			Snoozed: set.Snoozed(g.Now), Recurs: set.UsedFor(d.Drift.ID), Votes: d.Votes, Lacks: d.Lacks,
		},
	})
	return recorded, nil
}

// recorded reports whether this gate records a Drift, and sends its reports.
func (c *Controller) recorded(d *v1alpha1.Drift) bool {
	return drift.OfGate(d) && c.ours(identity.Ref(d.Spec.Child))
}

// resolution is why a Drift is resolved, for its status.
func resolution(have *v1alpha1.Drift, o *cluster.Object, d gating.Decision) string {
	gate := mask.ParseGate(o.Annotations)
	switch {
	case d.Action == gating.ActionOpen && d.Gate.Digest == have.Spec.ID, gate.Digest == have.Spec.ID:
		return settling.WhyApproved
	case len(o.External.Difference) == 0 && !o.External.Gone:
		return "the external resource is as it should be"
	}
	return "the difference is another one now"
}

// approvalOf a Drift that is resolved for a reason: that by which the gate opens, or has opened; nil for none.
func approvalOf(have *v1alpha1.Drift, why string, holders []identity.Holder, d gating.Decision) *v1alpha1.HopApproval {
	switch {
	case why != settling.WhyApproved:
		return nil
	case d.Approval != nil && d.Approval.Digest == have.Spec.ID:
		return d.Approval
	}
	return settling.ApprovalOf(have, nil, states(holders)...)
}

// states of holders.
func states(holders []identity.Holder) []*parent.State {
	out := make([]*parent.State, 0, len(holders))
	for _, h := range holders {
		out = append(out, h.State)
	}
	return out
}
