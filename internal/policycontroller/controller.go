package policycontroller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/policies"
	"github.com/kausality-io/function-kausality/internal/manifests"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

// Controller of the policies. Its one worker needs no locks.
type Controller struct {
	Options
	// Cached reads policies and what is made here; Direct everything else, and
	// writes.
	Cached, Direct client.Client
	Metadata       metadata.Interface
	Discovery      discovery.DiscoveryInterface
	// Now is the clock of the certificates.
	Now func() time.Time

	// applied is what was last written, by kind and name.
	applied map[string]applied
	// droppedAt is since when the policies have no longer what is guarded.
	droppedAt map[schema.GroupResource]time.Time
	// maskedKinds are the guarded kinds, with whether any of their objects is masked.
	maskedKinds map[schema.GroupResource]maskedKind
	// protected CRDs, as they were last written.
	protected manifests.Masked
	// pulse of the webhook; nil if it is not known.
	pulse *pulse
	// deriver of policies from graphs; nil for none.
	deriver *deriver
}

const (
	// retryWithout is how long to wait while the CRD or the owner is not there.
	retryWithout = 10 * time.Second
	// retryRetained is how often what is masked still is counted.
	retryRetained = 5 * time.Second
	// settleDropped is the time after a resource left the policies by which all
	// processes have observed that.
	settleDropped = retryRetained
)

// Reconcile everything there is. It is called when anything changed.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	ctx, span := telemetry.Span(ctx, "policies")
	result, err := c.pass(ctx)
	telemetry.End(span, err)
	return result, err
}

// installed reports whether there is something to be controller of: the CRD of
// the policies, and the owner of what is made here. The CRD is read past the
// cache: it is marked before its objects are removed, so that policies that went
// with it are never taken for policies that a user removed.
func (c *Controller) installed(ctx context.Context) (bool, error) {
	crd := partial(crdKind)
	err := c.Direct.Get(ctx, client.ObjectKey{Name: policies.PolicyCRD}, crd)
	if kerrors.IsNotFound(err) || err == nil && crd.DeletionTimestamp != nil {
		c.Log.Info("the CRD of the policies is not there; everything stays as it is", "crd", policies.PolicyCRD)
		return false, nil
	}
	if err != nil || c.Owner == "" {
		return err == nil, err
	}
	owner, err := c.owner(ctx)
	if kerrors.IsNotFound(err) || err == nil && owner.DeletionTimestamp != nil {
		c.Log.Info("the installation is being removed; nothing is written any more", "clusterrole", c.Owner)
		return false, nil
	}
	return err == nil, err
}

func (c *Controller) owner(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
	o := partial(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
	return o, c.Cached.Get(ctx, client.ObjectKey{Name: c.Owner}, o)
}

// understand the policies; faults are the errors of invalid ones, by name.
func (c *Controller) understand(list *v1alpha1.KausalityList) (settings.Set, map[string]error) {
	faults := map[string]error{}
	good := map[string]*v1alpha1.Kausality{}
	for i := range list.Items {
		k := &list.Items[i]
		one, errs := settings.Compile([]*v1alpha1.Kausality{k})
		err := errs[k.Name]
		if err == nil {
			err = manifests.Refused(one.Scopes())
		}
		if err != nil {
			faults[k.Name] = err
			continue
		}
		good[k.Name] = k
	}
	set, _ := settings.Compile(slices.Collect(maps.Values(good)))
	return set, faults
}

// lenient returns Scopes that only log.
func lenient(scopes []settings.Scope) []settings.Scope {
	out := slices.Clone(scopes)
	for i := range out {
		out[i].Mode = v1alpha1.ModeLog
	}
	return out
}

// write the objects for the Scopes, and remove those that none needs any more. It returns what was made, nil for nothing.
func (c *Controller) write(ctx context.Context, scopes []settings.Scope, retained []string, bundle []byte, removing bool) (*manifests.Guarded, error) {
	o := c.Manifests
	if o.CABundle = bundle; bundle == nil {
		return nil, nil // without a certificate the webhook cannot be called
	}
	var err error
	if !removing {
		if o.Enforced, err = c.enforced(ctx); err != nil {
			return nil, err
		}
	}
	if o.SelectedBy, err = c.selectedBy(ctx); err != nil {
		return nil, err
	}
	guarded, err := manifests.Guard(o, scopes, retained, c.protected)
	if err != nil {
		return nil, fmt.Errorf("cannot make the webhook configuration: %w", err)
	}
	if guarded != nil && guarded.Unprotected > 0 {
		c.Log.Info("policies with their overrides are too many: annotations of the last ones are not protected while the webhook is down",
			"unprotected", guarded.Unprotected)
	}
	if guarded != nil && len(guarded.FailOpen) > 0 {
		c.Log.Info("namespaces that enforce by annotation are too many: the last ones fail open; enforce by policies", "namespaces", len(guarded.FailOpen))
	}
	if guarded != nil {
		reads, err := c.crossplaneReads(ctx)
		if err != nil {
			return nil, err
		}
		guarded.Configuration.Annotations = map[string]string{v1alpha1.AnnotationKeyCrossplaneReads: reads}
	}
	objects := inOrder(guarded)
	for _, object := range objects {
		if err := c.apply(ctx, object); err != nil {
			return guarded, err
		}
	}
	return guarded, c.prune(ctx, objects)
}

// crossplaneReads returns what the function may have Crossplane read: a fetch that is forbidden would fail each pipeline
// with a policySelector (KR-09-08).
func (c *Controller) crossplaneReads(ctx context.Context) (string, error) {
	role := partial(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
	err := c.Cached.Get(ctx, client.ObjectKey{Name: manifests.RoleCrossplane}, role)
	there := err == nil
	switch {
	case client.IgnoreNotFound(err) != nil:
		return "", fmt.Errorf("cannot read ClusterRole %s: %w", manifests.RoleCrossplane, err)
	case !there || role.DeletionTimestamp != nil || role.Labels[manifests.LabelCrossplane] != "true":
		return v1alpha1.CrossplaneReadsNone, nil
	}
	return v1alpha1.CrossplaneReadsAll, nil
}

// inOrder of writing: access first, the webhook last, so that the webhook is not
// called for objects that it cannot read.
func inOrder(g *manifests.Guarded) []client.Object {
	var out []client.Object
	if g == nil {
		return nil
	}
	for _, o := range g.Roles {
		out = append(out, o)
	}
	for _, o := range g.Policies {
		out = append(out, o)
	}
	for _, o := range g.Bindings {
		out = append(out, o)
	}
	return append(out, g.PolicyCheck, g.Rollouts, g.Configuration)
}
