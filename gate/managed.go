package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/carry"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// managed reconciles managed resources, and the objects that hold approvals for what is below them.
type managed struct{ *core }

// reconcile a managed resource. again is when to reconcile it without a change; 0 for never.
func (m *managed) reconcile(ctx context.Context, o *states.Object) (again time.Duration, err error) {
	g, err := m.gating(ctx, o)
	if err != nil {
		return 0, err
	}
	d, err := m.decide(ctx, o, &g, gating.Managed.Decide)
	if err != nil || m.awaitsTurn(o, d) { // its turn brings it back
		return d.Again, err
	}
	if err := m.act(ctx, o, g, d); err != nil {
		return 0, err
	}
	recorded, err := m.reporter.report(ctx, o, g, d)
	if err != nil {
		return 0, err
	}
	return untilRecorded(recorded, m.reporter.reportRemaining(ctx, o, g, d)), m.repeat(ctx, o)
}

// act on a decision about an MR, in one write (KR-08-23).
func (m *managed) act(ctx context.Context, o *states.Object, g gating.Managed, d gating.Decision) error {
	if d.Action == gating.ActionNone { // a change, or d.Again
		return nil
	}
	if err := m.prepare(ctx, d); err != nil {
		return err
	}
	p := patch(o, d)
	if err := m.carry(ctx, o, g, d, &p); err != nil {
		return err
	}
	if err := m.cluster.States.Apply(ctx, o.State.Ref, p); err != nil {
		if kerrors.IsNotFound(err) { // its watch shows it if it is created again
			return nil
		}
		return err
	}
	m.reporter.announce(o, g, d)
	return nil
}

// patch of an MR for a decision: policies, the author's value and the gate
// annotation in one (KR-08-23).
func patch(o *states.Object, d gating.Decision) states.Patch {
	p := states.Patch{Manager: v1alpha1.ManagerGate, ResourceVersion: o.ResourceVersion, ManagementPolicies: d.Policies, Annotations: map[string]*string{}}
	maps.Copy(p.Annotations, d.Edits)
	if d.Action == gating.ActionRestore {
		p.Annotations[v1alpha1.AnnotationKeyManagementPolicies] = nil
		p.Annotations[v1alpha1.AnnotationKeyGate] = nil
		return p
	}
	maps.Copy(p.Annotations, d.Annotations)
	p.Annotations[v1alpha1.AnnotationKeyManagementPolicies] = new(mask.FormatAuthor(d.Author))
	p.Annotations[v1alpha1.AnnotationKeyGate] = new(mask.FormatGate(d.Gate))
	if d.Gate.State == v1alpha1.GateOpen && !isOpenAs(o, d) {
		p.Annotations[v1alpha1.AnnotationKeyReconcileRequestedAt] = new(clock.Now().UTC().Format(time.RFC3339Nano))
	}
	return p
}

// carry adds to the patch that opens a gate what takes its cause to the outside, and what it is open for (KR-08-62). The object is read for it, which the
// cache does not have whole; the patch conflicts where it has changed since.
func (m *managed) carry(ctx context.Context, o *states.Object, g gating.Managed, d gating.Decision, p *states.Patch) error {
	s := m.cluster.Settings(o.State.Ref, o.State.Labels)
	if d.Action != gating.ActionOpen || len(s.Provenance)+len(m.options.Provenance) == 0 {
		return nil
	}
	content, err := m.cluster.States.Content(ctx, o.State.Ref)
	if err != nil || content == nil {
		return err
	}
	name, value, warnings := carry.OpenedBy(&unstructured.Unstructured{Object: content}, s, m.options.Provenance, d.Gate, gating.LastEndOf(d.Gate, g.Deadline))
	if name != "" {
		p.ForProvider = map[string]any{name: value}
	}
	for _, w := range warnings {
		m.reporter.log.Info("Cannot record the cause of an opening outside", "object", identity.Describe(o.State.Ref), "why", w)
	}
	return nil
}

// isOpenAs reports whether a gate is open already as a decision leaves it. The provider need not reconcile for what else is recorded:
// its status would cause two more events for Crossplane's circuit breaker (KR-04-18).
func isOpenAs(o *states.Object, d gating.Decision) bool {
	return !mask.Opens(mask.ParseGate(o.Annotations), d.Gate) && slices.Equal(o.ManagementPolicies, d.Policies)
}

// reconcileHolder reconciles an object that holds approvals: it enqueues the gated
// objects below it, and finishes the claims of those that are gone.
func (m *managed) reconcileHolder(ctx context.Context, o *states.Object) error {
	for _, ref := range m.cluster.Below(o.State) {
		m.scope.enqueue(ref)
	}
	if len(o.Children) == 0 && hasDecisions(o) { // only Crossplane's kinds name their children
		m.scope.recheck(func(mr *states.Object) bool { return mr.Parent.UID == o.State.UID })
	}
	for _, claim := range approval.ParseClaims(o.Annotations[v1alpha1.AnnotationKeyClaims]) {
		if claim.State != v1alpha1.ClaimPending || claim.Relation != v1alpha1.RelationExternal || claim.Child == nil {
			continue
		}
		_, err := m.cluster.States.Get(ctx, parent.Ref{
			GroupVersionKind: schema.FromAPIVersionAndKind(claim.Child.APIVersion, claim.Child.Kind),
			Namespace:        claim.Child.Namespace, Name: claim.Child.Name, UID: claim.Child.UID,
		}, true)
		if errors.Is(err, admission.ErrNotFound) {
			_, err := m.spend(ctx, o.State, claim)
			return err
		}
		if err != nil {
			return fmt.Errorf("cannot read the child of a claim: %w", err)
		}
	}
	return nil
}
