package gate

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
	"github.com/kausality-io/function-kausality/internal/records"
)

// listen registers all that makes the reconcilers reconcile. What it registers runs on every replica, from caches, and does not block.
// Call it before the cluster starts: an event that comes before its handler is lost.
func (c *Controller) listen(ctx context.Context, mgr manager.Manager) error {
	// Policies of our group may allow what was refused, so that they are watched like what they are about.
	c.cluster.Kinds.OnChange(c.watchPolicies)
	// A gated object has changed, or one that holds approvals for what is below it.
	c.cluster.States.OnChange(c.changed)
	// What is known of an object that is not watched any more would not change again.
	c.cluster.States.OnUnwatch(func(o *states.Object) { c.reporter.forget(o.State.Ref) })
	// Modes, deadlines and freezes of policies are about every gated object.
	c.cluster.Policies.OnChange(c.policiesChanged)
	// A kind of an external system that is guarded again has the access that its last reconcile was without.
	c.cluster.Scope.OnChange(func() {
		c.scope.recheck(func(o *states.Object) bool { return systems.For(o.GroupVersionKind) != nil })
	})
	// While Kausality is being removed, every gate is restored and nothing is refused any more.
	c.cluster.Scope.OnRemoval(c.removed)
	// Votes, windows and authors of ApprovalRules decide whether an approval counts.
	if c.rules != nil {
		c.rules.OnChange(c.rulesChanged)
	}
	// A Namespace has a mode, a freeze and labels, and when it ends, its deletions wait.
	if err := c.cluster.Namespaces.OnChange(c.namespaceChanged); err != nil {
		return err
	}
	// A Drift may be recorded after its difference is gone, and be resolved while its difference remains.
	return c.watchDrifts(ctx, mgr)
}

// changed is called for each change of a watched object. A gated object is
// reconciled itself; a parent may have new approvals for the MRs below it, or
// claims to finish.
func (c *Controller) changed(old, new *states.Object) {
	one := cmp.Or(new, old)
	switch {
	case one.Group == v1alpha1.Group:
		c.waker.policyChanged(old, new)
		return
	case c.scope.managed(one.State.Ref) && c.scope.leading.Load() && c.scope.ours(one.State.Ref):
		c.reporter.orphaned(old, new)
		c.admitted(old, new)
	}
	c.waker.freezeChanged(old, new)
	c.waker.instanceChanged(old, new)
	if new == nil {
		c.reporter.forget(old.State.Ref)
	}
	decideAgain(c.scope, old, new)
}

// decideAgain about the managed resources that a change of an object concerns.
func decideAgain(s *scope, old, new *states.Object) {
	switch {
	case new == nil:
		if s.managed(old.State.Ref) && old.Parent.Name != "" {
			s.enqueue(old.Parent)
		}
	case s.managed(new.State.Ref), systems.For(new.GroupVersionKind) != nil:
		s.enqueue(new.State.Ref)
		// What is decided on its new parent is about it from now on, or approvals of deletions above it need other votes.
		switch {
		case old == nil || new.Parent.Name == "":
		case old.Parent.UID != new.Parent.UID:
			s.enqueue(new.Parent)
		case !gating.SameDeletion(old.State, new.State):
			enqueueAbove(s, new)
		}
	default:
		decideBelow(s, old, new)
	}
}

// enqueueAbove enqueues what is above an object and is decided on. Crossplane has a composite, what that is part of, and its Claim; kro has more.
func enqueueAbove(s *scope, o *states.Object) {
	const most = 8
	for n, at := 0, o; n < most && at != nil && at.Parent.Name != ""; n++ {
		ref := at.Parent
		if at = s.cluster.States.Cached(ref); at == nil || hasDecisions(at) {
			s.enqueue(ref)
		}
	}
}

// decideBelow a parent if its decisions or children have changed.
func decideBelow(s *scope, old, new *states.Object) {
	if old != nil && sameDecisions(old, new) && len(old.Children) == len(new.Children) {
		return
	}
	s.enqueue(new.State.Ref)
	if old != nil && len(new.Children) == 0 && hasDecisions(old) && !hasDecisions(new) {
		s.recheck(func(mr *states.Object) bool { return mr.Parent.UID == new.State.UID })
	}
}

// isDecision reports whether an annotation is a user's decision or its use.
func isDecision(key string) bool {
	return v1alpha1.IsUser(key) || key == v1alpha1.AnnotationKeyClaims
}

// decisions returns the annotations of an object by which users decide about changes, and the claims of such decisions; nil for none.
func decisions(o *states.Object) map[string]string {
	var out map[string]string
	for k, v := range o.Annotations {
		if isDecision(k) {
			if out == nil {
				out = map[string]string{}
			}
			out[k] = v
		}
	}
	return out
}

// hasDecisions reports whether an object has decisions.
func hasDecisions(o *states.Object) bool { return len(decisions(o)) > 0 }

// sameDecisions reports whether two objects have equal decisions.
func sameDecisions(a, b *states.Object) bool { return maps.Equal(decisions(a), decisions(b)) }

// namespaceChanged is called when the mode or the labels of a Namespace change or
// it is deleted: its MRs may have to be masked or restored, refused changes in it
// may be allowed, and refused deletions in it are repeated.
func (c *Controller) namespaceChanged(name string) {
	c.scope.recheck(func(o *states.Object) bool { return o.State.Namespace == name })
	if c.scope.wakesHere() {
		c.waker.queue.add(namespaceRef(name))
	}
	if err := c.waker.wakeRefused(context.Background(), name); err != nil { // from a cache: it does not block
		c.log.Error(err, "cannot wake what was refused", "namespace", name)
	}
}

// policiesChanged is called when the policies in force did: gates are decided about again, and freezes may have ended.
func (c *Controller) policiesChanged() {
	c.scope.recheckAll()
	if c.scope.wakesHere() {
		c.waker.noteFrozenPolicies()
	}
}

// rulesChanged is called when the ApprovalRules in force did: gates are decided about again.
func (c *Controller) rulesChanged() {
	c.scope.recheckAll()
	if c.scope.wakesHere() {
		c.waker.noteWindows()
	}
}

// removed is called when Kausality is about to be removed: nothing is refused any more.
func (c *Controller) removed() {
	c.scope.recheckAll()
	if err := c.waker.wakeRefused(context.Background(), ""); err != nil { // from a cache: it does not block
		c.log.Error(err, "cannot wake what was refused")
	}
}

// watchPolicies watches all kinds of policies of our own group: a change of any of them may allow what
// was refused.
func (c *Controller) watchPolicies(i kinds.Info) {
	if i.GVK.Group != v1alpha1.Group || i.GVK.Kind != policyKind && v1alpha1.PolicyResource(i.GVK.Kind) == "" || !i.Storage {
		return
	}
	if err := c.cluster.States.Watch(i.GVK); err != nil {
		c.log.Error(err, "cannot watch a policy kind")
	}
}

// watchDrifts reconciles an MR again when a Drift about it appears: the difference
// may be gone before the Drift was recorded. So it does when a Drift is resolved or deleted, which others may do
// though the external resource still differs.
func (c *Controller) watchDrifts(ctx context.Context, mgr manager.Manager) error {
	i, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.Drift{})
	if err != nil {
		return fmt.Errorf("cannot watch drifts: %w", err)
	}
	drift := func(o any) *v1alpha1.Drift {
		d, _ := informer.Last[*v1alpha1.Drift](o)
		return d
	}
	_, err = i.AddEventHandler(informer.Handler("gate drifts", cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.driftChanged(nil, drift(o)) },
		UpdateFunc: func(was, o any) { c.driftChanged(drift(was), drift(o)) },
		DeleteFunc: func(o any) { c.undrifted(drift(o)) },
	}))
	return err
}

// driftChanged is called for each change of a Drift. was is nil for a Drift that is new to the watch.
func (c *Controller) driftChanged(was, d *v1alpha1.Drift) {
	c.drifted(d)
	if was == nil {
		if d.Status.Phase == v1alpha1.DriftDetected && d.Status.Separated {
			c.waker.recordedLate(d)
		}
		return
	}
	if d.Status.Phase == v1alpha1.DriftResolved {
		c.undrifted(was)
	}
	if was.Status.Phase != v1alpha1.DriftDetected || !was.Status.Separated && d.Status.Separated {
		c.waker.recordedLate(d)
	}
}

// drifted is called for each Drift. The deletion of a composite is repeated through its
// MRs, which are watched anyway.
func (c *Controller) drifted(d *v1alpha1.Drift) {
	if d.Status.Phase == v1alpha1.DriftDetected && (len(indexChild(d)) > 0 || d.Status.RepeatFor != "") {
		c.enqueueChild(d)
	}
}

// undrifted is called for each Drift that is resolved or deleted; nil if the last state of a deleted Drift is unknown.
func (c *Controller) undrifted(d *v1alpha1.Drift) {
	if d != nil && d.Status.Phase == v1alpha1.DriftDetected && len(indexChild(d)) > 0 {
		c.enqueueChild(d)
	}
}

func (c *Controller) enqueueChild(d *v1alpha1.Drift) {
	c.scope.enqueue(identity.Ref(d.Spec.Child))
}

// admitted emits the event of a gate that the webhook moved in the request that
// changed an object: the webhook emits no events itself.
func (c *Controller) admitted(old, new *states.Object) {
	if new == nil || new.Deleting() || systems.For(new.GroupVersionKind) != nil {
		return
	}
	key := v1alpha1.AnnotationKeyGate
	if old != nil && old.Annotations[key] == new.Annotations[key] || old == nil && new.Generation > 1 {
		return // nothing moved, or before this process watched
	}
	gate := mask.ParseGate(new.Annotations)
	if old != nil && sameTransition(mask.ParseGate(old.Annotations), gate) {
		return
	}
	settings := c.cluster.Settings(new.State.Ref, new.State.Labels)
	if e, ok := eventOfAdmitted(gate, gating.DeadlineOf(settings, gating.Defaults{Deadline: c.options.Deadline})); ok {
		if c.reporter.records.Enabled() {
			c.reporter.records.Add(records.OfTransition(transitionOf(new, was(old), gate)))
		}
		c.reporter.emit(new, e)
	}
}
