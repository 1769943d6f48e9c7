package policycontroller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/scope"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

// live returns the webhook configuration as it is stored; nil if it does not exist.
func (c *Controller) live(ctx context.Context) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	out := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err := c.Direct.Get(ctx, client.ObjectKey{Name: scope.ConfigurationName}, out)
	if kerrors.IsNotFound(err) {
		return nil, nil // nil for a configuration that does not exist
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the webhook configuration: %w", err)
	}
	return out, nil
}

// retained returns the resources, as RESOURCE.GROUP, that were guarded, that the
// policies have not, and of which something is masked still, or may be: the first
// count of masked objects begins once all processes have observed the change. Until
// then the API server uses the earlier configuration, and the gate may carry out
// earlier decisions (KR-12-09).
func (c *Controller) retained(ctx context.Context, live *admissionregistrationv1.MutatingWebhookConfiguration, scopes []settings.Scope) ([]string, error) {
	guarded, err := c.guarded(ctx, live)
	if err != nil {
		return nil, err
	}
	all := dropped(guarded, scopes)
	c.noteDropped(all)
	var out []string
	for _, r := range all {
		masked := c.Now().Before(c.droppedAt[r].Add(settleDropped))
		if !masked {
			if masked, err = c.masked(ctx, r, scopes); err != nil {
				return nil, err
			}
		}
		if masked {
			out = append(out, r.String())
		}
	}
	return out, nil
}

// noteDropped resources, and since when each is.
func (c *Controller) noteDropped(all []schema.GroupResource) {
	next := make(map[schema.GroupResource]time.Time, len(all))
	for _, r := range all {
		at, known := c.droppedAt[r]
		if !known {
			at = c.Now()
		}
		next[r] = at
	}
	c.droppedAt = next
}

// guarded resources so far, "*" for a whole group: those of the configuration or,
// where it was deleted, those that the gate has access to. The roles are written
// before the configuration, and are not deleted in an emergency.
func (c *Controller) guarded(ctx context.Context, live *admissionregistrationv1.MutatingWebhookConfiguration) ([]schema.GroupResource, error) {
	if live != nil && len(live.Webhooks) > 0 {
		return configured(live), nil
	}
	role := &rbacv1.ClusterRole{}
	err := c.Direct.Get(ctx, client.ObjectKey{Name: manifests.RoleGatePolicies}, role)
	if kerrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the role %s: %w", manifests.RoleGatePolicies, err)
	}
	var out []schema.GroupResource
	for _, r := range role.Rules {
		out = append(out, resourcesOf(r.APIGroups, r.Resources)...)
	}
	return out, nil
}

// configured resources of the webhooks, without their subresources.
func configured(live *admissionregistrationv1.MutatingWebhookConfiguration) (out []schema.GroupResource) {
	for _, w := range live.Webhooks {
		for _, r := range w.Rules {
			out = append(out, resourcesOf(r.APIGroups, r.Resources)...)
		}
	}
	return out
}

// resourcesOf groups, without their subresources.
func resourcesOf(groups, names []string) (out []schema.GroupResource) {
	for _, g := range groups {
		for _, name := range names {
			name, _, _ = strings.Cut(name, "/")
			out = append(out, schema.GroupResource{Group: g, Resource: name})
		}
	}
	return out
}

// dropped returns the guarded resources that no Scope names, each once.
func dropped(guarded []schema.GroupResource, scopes []settings.Scope) []schema.GroupResource {
	var out []schema.GroupResource
	for _, gr := range guarded {
		wanted := slices.ContainsFunc(scopes, func(s settings.Scope) bool {
			return slices.Contains(s.APIGroups, gr.Group) && (slices.Contains(s.Resources, settings.All) || slices.Contains(s.Resources, gr.Resource))
		})
		if !wanted && !slices.Contains(out, gr) {
			out = append(out, gr)
		}
	}
	return out
}

// masked reports whether an object of a resource is under a gate, other than
// those that are guarded still.
func (c *Controller) masked(ctx context.Context, r schema.GroupResource, scopes []settings.Scope) (bool, error) {
	offered, err := c.offered()
	if err != nil {
		return false, err
	}
	for _, o := range left(offered, r, scopes) {
		if !manifests.Custom(o.Group) {
			continue // nothing of Kubernetes' own groups is a managed resource
		}
		found, err := c.anyMasked(ctx, o.GroupVersionResource)
		if err != nil || found {
			return found, err
		}
	}
	return false, nil
}

// left returns the offered resources, of a resource or of all of its group, that no Scope covers.
func left(offered []offer, r schema.GroupResource, scopes []settings.Scope) []offer {
	return slices.DeleteFunc(slices.Clone(offered), func(o offer) bool {
		return o.Group != r.Group || r.Resource != settings.All && o.Resource != r.Resource || anyCovers(scopes, o.GroupResource())
	})
}

const pageSize = 500

// anyMasked reports whether the gate still holds any object of a resource. Only
// metadata are read, a page at a time. A resource that does not exist has none.
func (c *Controller) anyMasked(ctx context.Context, r schema.GroupVersionResource) (bool, error) {
	for next := ""; ; {
		page, err := c.Metadata.Resource(r).List(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
		if kerrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("cannot see whether any of %s is masked: %w", r.GroupResource(), err)
		}
		for i := range page.Items {
			if held(&page.Items[i]) {
				return true, nil
			}
		}
		if next = page.Continue; next == "" {
			return false, nil
		}
	}
}

// held reports whether the gate must restore an object: a managed resource under a
// mask, or an object of an external system.
func held(o *metav1.PartialObjectMetadata) bool {
	return cluster.Masked(o.Annotations) && o.DeletionTimestamp == nil
}
