package policycontroller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

const (
	// recountEvery is how often a kind is listed again, at the most; many kinds less often, so that there are no more
	// than three lists a second.
	recountEvery = 15 * time.Second
	listEvery    = 300 * time.Millisecond
)

// maskedKind is whether objects of a kind are masked, and when that was read.
type maskedKind struct {
	is bool
	at time.Time
}

// maskedCRDs that a policy covers, in order, as they were counted last.
func (c *Controller) maskedCRDs(policy string, set settings.Set) []string {
	var names []string
	for gr, kind := range c.maskedKinds {
		if kind.is && covers(set, policy, gr) {
			names = append(names, gr.String())
		}
	}
	slices.Sort(names)
	return names
}

// covers reports whether a policy of a set covers a resource.
func covers(set settings.Set, policy string, gr schema.GroupResource) bool {
	return slices.ContainsFunc(set.Scopes(), func(s settings.Scope) bool { return s.Policy == policy && s.Covers(gr.Group, gr.Resource) })
}

// anyCovers reports whether any of some Scopes covers a resource.
func anyCovers(scopes []settings.Scope, gr schema.GroupResource) bool {
	return slices.ContainsFunc(scopes, func(s settings.Scope) bool { return s.Covers(gr.Group, gr.Resource) })
}

// remember what was protected when this process was started.
func (c *Controller) remember(ctx context.Context) error {
	if c.maskedKinds != nil {
		return nil
	}
	var was manifests.Masked
	for _, p := range manifests.MaskedPolicies(was) {
		stored := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		if err := c.Direct.Get(ctx, client.ObjectKeyFromObject(p), stored); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("cannot read which CRDs are protected: %w", err)
		}
		was.Read(stored)
	}
	c.protected, c.maskedKinds = was, map[schema.GroupResource]maskedKind{}
	for _, name := range was.CRDs {
		c.maskedKinds[schema.ParseGroupResource(name)] = maskedKind{is: true}
	}
	return nil
}

// countMasked kinds of all offered ones that are guarded or retained, and forget the others.
func (c *Controller) countMasked(ctx context.Context, offered []offer, scopes []settings.Scope, retained []string) {
	wanted := slices.DeleteFunc(slices.Clone(offered), func(o offer) bool { return !anyCovers(scopes, o.GroupResource()) })
	for _, r := range retained {
		wanted = append(wanted, left(offered, schema.ParseGroupResource(r), scopes)...)
	}
	seen := map[schema.GroupResource]bool{}
	for _, o := range wanted {
		if gr := o.GroupResource(); !seen[gr] && c.isCRD(ctx, gr) {
			seen[gr] = true
			c.isMasked(ctx, o.GroupVersionResource)
		}
	}
	maps.DeleteFunc(c.maskedKinds, func(gr schema.GroupResource, _ maskedKind) bool { return !seen[gr] })
}

// protect the CRDs whose objects are masked, as they were counted last, and the Providers that own them. Where nothing is
// guarded, nothing is protected.
func (c *Controller) protect(ctx context.Context, guards bool) error {
	if !guards {
		c.protected = manifests.Masked{}
		return nil
	}
	next, err := c.toProtect(ctx)
	if err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(next, c.protected) {
		return nil
	}
	for _, p := range manifests.MaskedPolicies(next) {
		if err := c.apply(ctx, p); err != nil {
			return err
		}
	}
	c.protected = next
	return nil
}

func (c *Controller) toProtect(ctx context.Context) (manifests.Masked, error) {
	out := manifests.Masked{}
	owners := map[types.UID][]string{}
	for gr, kind := range c.maskedKinds {
		crd := partial(crdKind)
		if !kind.is || c.Cached.Get(ctx, client.ObjectKey{Name: gr.String()}, crd) != nil {
			continue
		}
		out.CRDs = append(out.CRDs, crd.Name)
		if crd.Annotations[annotationAllowDeletion] == "true" {
			continue
		}
		providers, err := c.providersOf(ctx, crd, owners)
		if err != nil {
			return out, err
		}
		for _, name := range providers {
			if out.Providers == nil {
				out.Providers = map[string][]string{}
			}
			out.Providers[name] = append(out.Providers[name], crd.Name)
		}
	}
	slices.Sort(out.CRDs)
	for _, crds := range out.Providers {
		slices.Sort(crds)
	}
	return out, nil
}

const (
	packages = "pkg.crossplane.io"
	// annotationAllowDeletion on a CRD allows its deletion where its value is true.
	annotationAllowDeletion = "kausality.io/allow-deletion"
)

var revisionKind = schema.GroupVersionKind{Group: packages, Version: "v1", Kind: "ProviderRevision"}

// providersOf a CRD: its owners and those of its revisions; one that a ManagedResourceDefinition made has its revision
// alone as an owner. read are the owners of revisions that were read already.
func (c *Controller) providersOf(ctx context.Context, crd *metav1.PartialObjectMetadata, read map[types.UID][]string) ([]string, error) {
	out := providers(crd.OwnerReferences)
	for _, o := range crd.OwnerReferences {
		if o.Kind != revisionKind.Kind || !strings.HasPrefix(o.APIVersion, packages+"/") {
			continue
		}
		names, known := read[o.UID]
		if !known {
			revision := partial(revisionKind)
			err := c.Direct.Get(ctx, client.ObjectKey{Name: o.Name}, revision)
			if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
				return nil, fmt.Errorf("cannot read ProviderRevision %s: %w", o.Name, err)
			}
			names = providers(revision.OwnerReferences)
			read[o.UID] = names
		}
		out = append(out, names...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// providers among owners.
func providers(owners []metav1.OwnerReference) []string {
	var out []string
	for _, o := range owners {
		if o.Kind == "Provider" && strings.HasPrefix(o.APIVersion, packages+"/") {
			out = append(out, o.Name)
		}
	}
	return out
}

// isCRD reports whether a CRD defines a resource.
func (c *Controller) isCRD(ctx context.Context, gr schema.GroupResource) bool {
	return manifests.Custom(gr.Group) && c.Cached.Get(ctx, client.ObjectKey{Name: gr.String()}, partial(crdKind)) == nil
}

// recountAfter returns for how long objects of a kind are not listed again.
func (c *Controller) recountAfter() time.Duration {
	return max(recountEvery, time.Duration(len(c.maskedKinds))*listEvery)
}

// isMasked reports whether objects of a kind are masked; they are not counted again within a short time. A kind that
// cannot be listed counts as before, and as masked if it was not listed yet.
func (c *Controller) isMasked(ctx context.Context, r schema.GroupVersionResource) bool {
	gr := r.GroupResource()
	last, known := c.maskedKinds[gr]
	if known && c.Now().Before(last.at.Add(c.recountAfter())) {
		return last.is
	}
	is, err := c.anyMasked(ctx, r)
	if err != nil {
		c.Log.Error(err, "cannot count masked objects; their CRD is protected as before", "resource", gr.String())
		is = last.is || !known
	}
	c.maskedKinds[gr] = maskedKind{is: is, at: c.Now()}
	return is
}
