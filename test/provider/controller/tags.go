package controller

import (
	"context"
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"

	"github.com/kausality-io/function-kausality/test/provider/apis/v1alpha1"
)

// tagger writes the tags of the object itself into the desired state, as providers built with upjet do (config.Tagger). Kinds
// without a map of tags stay as they are.
func tagger(kube client.Client) managed.Initializer {
	return managed.InitializerFn(func(ctx context.Context, mg resource.Managed) error {
		db, ok := mg.(*v1alpha1.Database)
		if !ok {
			return nil
		}
		tags := maps.Clone(db.Spec.ForProvider.Tags)
		if tags == nil {
			tags = map[string]string{}
		}
		maps.Copy(tags, resource.GetExternalTags(mg))
		if maps.Equal(tags, db.Spec.ForProvider.Tags) {
			return nil
		}
		db.Spec.ForProvider.Tags = tags
		return errors.Wrap(kube.Update(ctx, db), "cannot tag the resource")
	})
}
