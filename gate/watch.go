package gate

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/internal/cluster"
)

// Event handlers: what they see becomes work in the queues. They run on every
// replica, from caches, and do not block.

// enqueue an object for the gates' controller, if it is this shard's.
func (c *Controller) enqueue(ref parent.Ref) {
	if c.ours(ref) {
		c.gateQueue.add(ref)
	}
}

// changed is called for each change of a watched object. A gated object is
// reconciled itself; a parent may have new approvals for the MRs below it, or
// claims to finish.
func (c *Controller) changed(old, new *cluster.Object) {
	one := new
	if one == nil {
		one = old
	}
	switch {
	case one.Group == v1alpha1.Group:
		c.policyChanged(old, new)
		return
	case c.managed(one.State.Ref):
		c.orphaned(old, new)
		c.admitted(old, new)
	}
	c.freezeChanged(old, new)
	c.instanceChanged(old, new)
	if new == nil {
		c.remaining.forget(old.State.Ref)
		c.shadows.note(old.State.Ref, 0)
	}
	switch {
	case new == nil && c.managed(old.State.Ref):
		if old.Parent.Name != "" {
			c.enqueue(old.Parent)
		}
	case new == nil:
		c.externalStates.forget(old.State.Ref)
	case c.managed(new.State.Ref), systems.For(new.GroupVersionKind) != nil:
		c.enqueue(new.State.Ref)
		enqueueParent(c, old, new)
	case old == nil || !sameDecisions(old, new) || len(old.Children) != len(new.Children):
		c.enqueue(new.State.Ref)
		if old != nil && len(new.Children) == 0 && hasDecisions(old) && !hasDecisions(new) {
			c.recheck(func(mr *cluster.Object) bool { return mr.Parent.UID == new.State.UID })
		}
	}
}

// instanceChanged wakes kro when what is decided about the children of an instance changes: an update of its annotations does not.
func (c *Controller) instanceChanged(old, new *cluster.Object) {
	if new == nil || new.Role != parent.RoleInstance || !c.wakesHere() {
		return
	}
	if old == nil && hasDecisions(new) || old != nil && !sameDecisions(old, new) {
		c.wakeQueue.add(new.State.Ref)
	}
}

// enqueueParent enqueues the parent of a gated object that had another one: what is decided there about all that is below it is about this object now.
func enqueueParent(c *Controller, old, new *cluster.Object) {
	if old != nil && old.Parent.UID != new.Parent.UID && new.Parent.Name != "" {
		c.enqueue(new.Parent)
	}
}

// isDecision reports whether an annotation is a user's decision or its use.
func isDecision(key string) bool {
	return v1alpha1.IsUser(key) || key == v1alpha1.AnnotationKeyClaims
}

// hasDecisions reports whether an object has an annotation by which a user decides
// about changes, or claims of such decisions.
func hasDecisions(o *cluster.Object) bool {
	for k := range o.Annotations {
		if isDecision(k) {
			return true
		}
	}
	return false
}

// sameDecisions reports whether users' annotations and claims are equal.
func sameDecisions(a, b *cluster.Object) bool {
	count := 0
	for k, v := range a.Annotations {
		if isDecision(k) {
			if w, ok := b.Annotations[k]; !ok || w != v {
				return false
			}
			count++
		}
	}
	for k := range b.Annotations {
		if isDecision(k) {
			count--
		}
	}
	return count == 0
}

// namespaceChanged is called when the mode or the labels of a Namespace change or
// it is deleted: its MRs may have to be masked or restored, refused changes in it
// may be allowed, and refused deletions in it are repeated.
func (c *Controller) namespaceChanged(name string) {
	c.recheck(func(o *cluster.Object) bool { return o.State.Namespace == name })
	if c.wakesHere() {
		c.wakeQueue.add(namespaceRef(name))
	}
	if err := c.wakeRefused(context.Background(), name); err != nil { // from a cache: it does not block
		c.Log.Error(err, "cannot wake what was refused", "namespace", name)
	}
}

// recheckAll gated objects, because rules changed that are about all of them.
func (c *Controller) recheckAll() { c.recheck(func(*cluster.Object) bool { return true }) }

// recheck the gated objects that f selects.
func (c *Controller) recheck(f func(*cluster.Object) bool) {
	for _, i := range c.Cluster.Kinds.All() {
		if !i.Kind.ManagementPolicies && systems.For(i.GVK) == nil {
			continue
		}
		for _, o := range c.Cluster.States.List(i.GVK) {
			if f(o) {
				c.enqueue(o.State.Ref)
			}
		}
	}
}

// watchSystems rechecks objects of external systems when what is guarded changes:
// a kind that is guarded again has the access that its reconcile was without. Call
// it before the cluster starts.
func (c *Controller) watchSystems() {
	c.Cluster.Scope.OnChange(func() {
		c.recheck(func(o *cluster.Object) bool { return systems.For(o.GroupVersionKind) != nil })
	})
	c.Cluster.States.OnUnwatch(func(o *cluster.Object) {
		c.externalStates.forget(o.State.Ref)
		c.remaining.forget(o.State.Ref)
		c.shadows.note(o.State.Ref, 0)
	})
}

// watchPolicies watches all kinds of policies of our own group: a change of any of them may allow what
// was refused.
func (c *Controller) watchPolicies(i cluster.Info) {
	if i.GVK.Group != v1alpha1.Group || i.GVK.Kind != policyKind && v1alpha1.PolicyResource(i.GVK.Kind) == "" || !i.Storage {
		return
	}
	if err := c.Cluster.States.Watch(i.GVK); err != nil {
		c.Log.Error(err, "cannot watch a policy kind")
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
	_, err = i.AddEventHandler(cluster.Handler("gate drifts", cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { appeared(c, o) }, DeleteFunc: c.undrifted, UpdateFunc: func(was, o any) {
			c.drifted(o)
			old, _ := was.(*v1alpha1.Drift)
			d, ok := o.(*v1alpha1.Drift)
			if ok && d.Status.Phase == v1alpha1.DriftResolved {
				c.undrifted(was)
			}
			if ok && old != nil && (old.Status.Phase != v1alpha1.DriftDetected || !old.Status.Separated && d.Status.Separated) {
				c.recordedLate(d)
			}
		},
	}))
	return err
}

// appeared is called for each Drift that is new to the watch.
func appeared(c *Controller, o any) {
	c.drifted(o)
	if d, ok := o.(*v1alpha1.Drift); ok && d.Status.Phase == v1alpha1.DriftDetected && d.Status.Separated {
		c.recordedLate(d)
	}
}

// drifted is called for each Drift. That of a composite is repeated by way of its
// MRs, whose changes are watched anyway.
func (c *Controller) drifted(o any) {
	d, ok := o.(*v1alpha1.Drift)
	if !ok || d.Status.Phase != v1alpha1.DriftDetected || len(indexChild(d)) == 0 && d.Status.RepeatFor == "" {
		return
	}
	c.enqueueChild(d)
}

// undrifted is called for each external Drift that was open and is so no longer.
func (c *Controller) undrifted(o any) {
	if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	if d, ok := o.(*v1alpha1.Drift); ok && d.Status.Phase == v1alpha1.DriftDetected && len(indexChild(d)) > 0 {
		c.enqueueChild(d)
	}
}

func (c *Controller) enqueueChild(d *v1alpha1.Drift) {
	c.enqueue(identity.Ref(d.Spec.Child))
}
