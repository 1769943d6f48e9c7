package policycontroller

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

// applied is what was written last: the content and the version that came of it.
type applied struct {
	hash    [sha256.Size]byte
	version string
}

// apply an object if it was changed since it was applied, or is to be changed (KR-12-02).
func (c *Controller) apply(ctx context.Context, object client.Object) error {
	u, err := c.owned(ctx, object)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return fmt.Errorf("cannot encode %s: %w", key(u), err)
	}
	hash := sha256.Sum256(raw)
	live := partial(u.GroupVersionKind())
	err = c.Cached.Get(ctx, client.ObjectKeyFromObject(u), live)
	if err != nil && !kerrors.IsNotFound(err) {
		return fmt.Errorf("cannot read %s: %w", key(u), err)
	}
	if last, ok := c.applied[key(u)]; ok && err == nil && last.hash == hash && last.version == live.ResourceVersion {
		return nil
	}
	if err := c.Direct.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(v1alpha1.ManagerController), client.ForceOwnership); err != nil {
		return fmt.Errorf("cannot apply %s: %w", key(u), err)
	}
	if version := u.GetResourceVersion(); version != live.ResourceVersion {
		writes.WithLabelValues(u.GetKind()).Inc()
		c.Log.Info("applied", "object", key(u), "version", version)
	}
	c.applied[key(u)] = applied{hash: hash, version: u.GetResourceVersion()}
	return nil
}

func key(o client.Object) string {
	return o.GetObjectKind().GroupVersionKind().Kind + " " + o.GetName()
}

// owned returns an object as it is applied: with the labels of Kausality, and with an owner by which it is
// deleted with the installation.
func (c *Controller) owned(ctx context.Context, object client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("cannot convert %T: %w", object, err)
	}
	delete(content, "status")
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	u.SetLabels(merged(u.GetLabels(), ownLabels()))
	owners, err := c.owners(ctx)
	if err != nil {
		return nil, err
	}
	u.SetOwnerReferences(owners)
	return u, nil
}

// owners of what is made here; none without an installation to go with.
func (c *Controller) owners(ctx context.Context) ([]metav1.OwnerReference, error) {
	if c.Owner == "" {
		return nil, nil
	}
	owner, err := c.owner(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot read the owner %s: %w", c.Owner, err)
	}
	return []metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: owner.Name, UID: owner.UID}}, nil
}

const bindingKind = "ValidatingAdmissionPolicyBinding"

// prune what was made here and is not wanted any more.
func (c *Controller) prune(ctx context.Context, wanted []client.Object) error {
	keep := map[string]bool{}
	for _, o := range wanted {
		keep[key(o)] = true
	}
	for _, gvk := range made {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk)
		if err := c.Cached.List(ctx, list, client.MatchingLabels{labelManaged: v1alpha1.ManagerController}); err != nil {
			return fmt.Errorf("cannot list %s: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			o.SetGroupVersionKind(gvk)
			if keep[key(o)] || o.DeletionTimestamp != nil || gvk.Kind == bindingKind && !manifests.WritesBinding(o.Name) {
				continue
			}
			if err := c.Direct.Delete(ctx, o, client.Preconditions{UID: &o.UID}); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("cannot remove %s: %w", key(o), err)
			}
			delete(c.applied, key(o))
			writes.WithLabelValues(gvk.Kind).Inc()
			c.Log.Info("removed", "object", key(o))
		}
	}
	return nil
}
