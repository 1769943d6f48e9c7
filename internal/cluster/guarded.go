package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/scope"
)

// Guarded reports whether the API server sends an object to the webhook; where
// it does not, why is what excludes it, as a clause.
func (d *Direct) Guarded(ctx context.Context, resource schema.GroupResource, namespace string, own map[string]string) (is bool, why string, err error) {
	is, why, err = scope.Guards(d.Scope.Entered(), resource, namespace, d.labelsOf(ctx), scope.Labeled(own))
	if err != nil || !is {
		return is, why, err
	}
	suspended, err := d.suspended(ctx, resource, namespace, own)
	if suspended {
		return false, whySuspended, err
	}
	return true, "", err
}

// whySuspended is why an object is not sent to the webhook although an entry is about it.
const whySuspended = "its policy is suspended"

// suspended reports whether the policy that covers an object is (KR-12-13).
func (d *Direct) suspended(ctx context.Context, resource schema.GroupResource, namespace string, own map[string]string) (bool, error) {
	d.policies.Do(func() { d.policiesFailed = d.readPolicies(ctx) })
	if d.policiesFailed != nil || len(d.Policies.Set().Scopes()) == 0 {
		return false, d.policiesFailed
	}
	ns, err := d.namespace(ctx, namespace)
	t := settings.Target{Group: resource.Group, Resource: resource.Resource, Namespace: namespace, Labels: own, NamespaceLabels: ns.Labels}
	return d.Policies.Set().For(t).Suspended, err
}

// FailsOpen reports whether changes of an object that is guarded are allowed without a decision while the webhook does not answer
// (KR-12-11). mode is that of the policy which covers it, or the default: where several entries may be about the object, which one
// is follows from it.
func (d *Direct) FailsOpen(ctx context.Context, resource schema.GroupResource, namespace string, own map[string]string, mode v1alpha1.Mode) (bool, error) {
	open, closed := false, false
	for _, e := range d.Scope.Entered() {
		is, _, err := scope.Guards([]scope.Entry{e}, resource, namespace, d.labelsOf(ctx), scope.Labeled(own))
		if err != nil {
			return false, err
		}
		open, closed = open || is && !e.Refuses, closed || is && e.Refuses
	}
	return open && (!closed || mode != v1alpha1.ModeEnforce), nil
}

// labelsOf Namespaces, read when first needed.
func (d *Direct) labelsOf(ctx context.Context) func(string) (map[string]string, error) {
	return func(name string) (map[string]string, error) {
		ns, err := d.namespace(ctx, name)
		return ns.Labels, err
	}
}

// Reviews reports whether requests about an object are reviewed, so that approvals on it
// count (KR-13-15). Without a webhook configuration of that name they count: either a
// configuration of another name has requests reviewed, or nothing does and there is no
// approver RBAC. A configuration that does not follow policies may be one of several, by
// Namespace: then only kind, scope and labels decide.
func (c *Cluster) Reviews(s *parent.State) bool {
	return c.reviews(s.Ref, cachedLabels(c), scope.Labeled(s.Labels))
}

// MayReview is Reviews for an object with unknown labels: it reports whether the object may be guarded.
func (c *Cluster) MayReview(ref parent.Ref) bool {
	return c.reviews(ref, cachedLabels(c), scope.AnyLabels)
}

// cachedLabels of Namespaces.
func cachedLabels(c *Cluster) func(string) (map[string]string, error) {
	return func(namespace string) (map[string]string, error) { return c.Namespaces.Labels(namespace), nil }
}

// Reviews is Reviews of a Cluster. What cannot be read is not guarded, and Failed returns the error.
func (d *Direct) Reviews(ctx context.Context, s *parent.State) bool {
	return d.reviews(s.Ref, readLabels(ctx, d), scope.Labeled(s.Labels))
}

// MayReview is MayReview of a Cluster. What cannot be read is not guarded, and Failed returns the error.
func (d *Direct) MayReview(ctx context.Context, ref parent.Ref) bool {
	return d.reviews(ref, readLabels(ctx, d), scope.AnyLabels)
}

// readLabels is labelsOf, but Failed returns the errors.
func readLabels(ctx context.Context, d *Direct) func(string) (map[string]string, error) {
	return func(namespace string) (map[string]string, error) {
		of, err := d.labelsOf(ctx)(namespace)
		if err != nil {
			d.Fail(err)
		}
		return of, err
	}
}

func (c *Cluster) reviews(ref parent.Ref, labelsOf func(string) (map[string]string, error), selects func(scope.Entry) bool) bool {
	if !c.Scope.Known() {
		return true
	}
	info, err := c.Kinds.Get(ref.GroupVersionKind)
	if err != nil {
		return false
	}
	if !c.Scope.FollowsPolicies() {
		labelsOf = nil
	}
	is, _, err := scope.Guards(c.Scope.Entered(), info.GVR.GroupResource(), ref.Namespace, labelsOf, selects)
	return err == nil && is
}
