package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/identity"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
)

// After a refusal with 422 nothing wakes Crossplane (facts 8), so that what
// allows the change later must: a changed mode of a Namespace, a changed policy,
// a window that begins. What is written on the composite itself wakes Crossplane
// anyway.

const (
	// wakesPerSecond bounds how fast composites are woken.
	wakesPerSecond = 10
	// lately is how long after a change a refusal that is recorded only now may
	// have been made before it; and how old the last refusal may be where the
	// composite does not show it yet.
	lately = time.Minute
	// skew of the clocks of webhook and gate that is reckoned with.
	skew = 2 * time.Second
)

// watchPolicies looks at all kinds of our own group but Drifts, as they come:
// what they say is decided elsewhere, that they changed is enough here.
func (c *Controller) watchPolicies(i cluster.Info) {
	if i.GVK.Group != v1alpha1.Group || i.GVK.Kind == "Drift" || !i.Storage {
		return
	}
	if err := c.Cluster.States.Watch(i.GVK); err != nil {
		c.Log.Error(err, "cannot watch a policy kind")
	}
}

// wakesHere reports whether this process wakes composites: one does.
func (c *Controller) wakesHere() bool { return c.leading.Load() && c.Shard.Index == 0 }

// policyChanged: another generation, a new one, or one less. Those that were
// there when we started are no change, but their windows may begin.
func (c *Controller) policyChanged(old, new *cluster.Object) {
	switch {
	case !c.wakesHere():
	case new == nil:
		c.wakes.Add(withoutUID(old.State.Ref))
	case old == nil || old.Generation != new.Generation:
		c.wakes.Add(withoutUID(new.State.Ref))
	}
}

// WakeRefused wakes the composites whose children were refused, in a Namespace
// or, where it is empty, everywhere. Call it when something changed that may let
// them through; it does not block. Only the leader does anything.
func (c *Controller) WakeRefused(ctx context.Context, namespace string) error {
	if !c.wakesHere() {
		return nil
	}
	c.noteChange(namespace)
	list := &v1alpha1.DriftList{}
	if err := c.Drifts.List(ctx, list); err != nil {
		return fmt.Errorf("cannot list drifts: %w", err)
	}
	for i := range list.Items {
		if d := &list.Items[i]; wakes(d) && (namespace == "" || d.Spec.Child.Namespace == namespace || d.Spec.Parent.Namespace == namespace) {
			c.wakes.Add(parentOf(d))
		}
	}
	return nil
}

// wakes reports whether a Drift is of a refusal that its controller may not try
// again by itself.
func wakes(d *v1alpha1.Drift) bool {
	return d.Status.Phase == v1alpha1.DriftDetected && d.Spec.Operation != "" && d.Spec.Parent.Name != "" &&
		(d.Spec.Relation != v1alpha1.RelationExternal || d.Status.RepeatFor != "")
}

func parentOf(d *v1alpha1.Drift) parent.Ref {
	p := d.Spec.Parent
	return parent.Ref{GroupVersionKind: schema.FromAPIVersionAndKind(p.APIVersion, p.Kind), Namespace: p.Namespace, Name: p.Name}
}

// recordedLate wakes a composite whose refusal was made before a change that may
// have allowed it, and is recorded only now.
func (c *Controller) recordedLate(d *v1alpha1.Drift) {
	if c.wakesHere() && wakes(d) && d.Status.LastSeen != nil && c.changedSince(d.Status.LastSeen.Time, "", d.Spec.Child.Namespace, d.Spec.Parent.Namespace) {
		c.wakes.Add(parentOf(d))
	}
}

func (c *Controller) noteChange(namespace string) {
	c.changedMu.Lock()
	defer c.changedMu.Unlock()
	maps.DeleteFunc(c.changedAt, func(_ string, at time.Time) bool { return time.Since(at) >= lately })
	if c.changedAt == nil {
		c.changedAt = map[string]time.Time{}
	}
	c.changedAt[namespace] = time.Now()
}

// changedSince a refusal, or so close to it that the clocks of two machines
// cannot tell.
func (c *Controller) changedSince(refused time.Time, namespaces ...string) bool {
	c.changedMu.Lock()
	defer c.changedMu.Unlock()
	return slices.ContainsFunc(namespaces, func(n string) bool {
		at := c.changedAt[n]
		return time.Since(at) < lately && at.Add(skew).After(refused)
	})
}

// runWakes until the queue is shut down.
func (c *Controller) runWakes(ctx context.Context) {
	for {
		ref, quit := c.wakes.Get()
		if quit {
			return
		}
		rctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
		err := c.wakeOne(rctx, ref)
		cancel()
		switch {
		case err != nil && ctx.Err() == nil:
			c.Log.Error(err, "cannot wake", "object", identity.Describe(ref))
			c.wakes.AddRateLimited(ref)
		default:
			c.wakes.Forget(ref)
		}
		c.wakes.Done(ref)
	}
}

// wakeOne composite; or all of them, for a policy that changed or whose window
// begins now.
func (c *Controller) wakeOne(ctx context.Context, ref parent.Ref) error {
	if ref.Group != v1alpha1.Group {
		return c.wake(ctx, ref)
	}
	begins, err := c.window(ctx, ref)
	if err != nil {
		return err
	}
	if wait := time.Until(begins); wait > 0 {
		c.wakes.AddAfter(ref, wait)
	}
	return c.WakeRefused(ctx, "")
}

// window of a policy: when it begins; the zero time where it has none, or is
// gone.
func (c *Controller) window(ctx context.Context, ref parent.Ref) (time.Time, error) {
	r, err := c.Cluster.States.Resource(ref)
	if err != nil {
		return time.Time{}, err
	}
	if c.Cluster.States.Cached(ref) == nil {
		return time.Time{}, nil
	}
	o, err := r.Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot read %s: %w", identity.Describe(ref), err)
	}
	text, _, _ := unstructured.NestedString(o.Object, "spec", "validFrom") // of another kind: no window
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, nil //nolint:nilerr // It has no window that could begin.
	}
	return at, nil
}

// wake a composite that has a refused child, and does not know that it is let
// through now.
func (c *Controller) wake(ctx context.Context, ref parent.Ref) error {
	o, err := c.Cluster.States.Get(ctx, ref, false)
	if errors.Is(err, admission.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", identity.Describe(ref), err)
	}
	if needed, err := c.sleeps(ctx, o); err != nil || !needed {
		return err
	}
	if err := c.wakeRate.Wait(ctx); err != nil {
		return err
	}
	at := time.Now().UTC().Format(time.RFC3339Nano)
	err = c.Cluster.States.Apply(ctx, o.State.Ref, cluster.Patch{Manager: v1alpha1.ManagerGate, Annotations: map[string]*string{v1alpha1.AnnotationKeyReconcileRequestedAt: &at}})
	if err == nil {
		wakeups.Inc()
	}
	return err
}

// sleeps reports whether Crossplane was refused something for a composite, and
// may not come back to it: other controllers retry by themselves.
func (c *Controller) sleeps(ctx context.Context, o *cluster.Object) (bool, error) {
	if o.Role != parent.RoleComposite && o.Role != parent.RoleClaim {
		return false, nil
	}
	list := &v1alpha1.DriftList{}
	if err := c.Drifts.List(ctx, list); err != nil {
		return false, fmt.Errorf("cannot list drifts: %w", err)
	}
	for i := range list.Items {
		d := &list.Items[i]
		if !wakes(d) || withoutUID(parentOf(d)) != withoutUID(o.State.Ref) {
			continue
		}
		if !o.True("Synced") || d.Status.LastSeen != nil && time.Since(d.Status.LastSeen.Time) < lately {
			return true, nil
		}
	}
	return false, nil
}
