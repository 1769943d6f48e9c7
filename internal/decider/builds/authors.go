package builds

import (
	"context"
	"fmt"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var (
	composition = schema.GroupVersionResource{Group: "apiextensions.crossplane.io", Version: "v1", Resource: "compositions"}
	function    = schema.GroupVersionResource{Group: "pkg.crossplane.io", Version: "v1", Resource: "functions"}
)

// Author of the revision that a cause names; the zero one where it is unknown, and of other causes.
func (b *Builds) Author(ctx context.Context, c v1alpha1.HopCause) (authorship.Author, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	switch c.Kind {
	case v1alpha1.CauseComposition:
		return b.compositionAuthor(ctx, c.Name)
	case v1alpha1.CauseFunction:
		return b.functionAuthor(ctx, c.Name)
	case v1alpha1.CauseGraph:
		return b.graphAuthor(ctx, c.Name)
	}
	return authorship.Author{}, nil
}

// compositionAuthor of a revision.
func (b *Builds) compositionAuthor(ctx context.Context, name string) (authorship.Author, error) {
	rev, err := b.revision(ctx, name)
	if rev == nil {
		return authorship.Author{}, err
	}
	if rev.Of == "" {
		return rev.Author(authorship.Source{}), nil
	}
	s, err := b.source(ctx, composition, rev.Of, name)
	if err != nil {
		return authorship.Author{}, err
	}
	return rev.Author(s), nil
}

// functionAuthor of a revision.
func (b *Builds) functionAuthor(ctx context.Context, name string) (authorship.Author, error) {
	active, err := b.active(ctx)
	if err != nil {
		return authorship.Author{}, err
	}
	for of, encoded := range active {
		if have, image := decoded(encoded); have == name {
			s, err := functionSource(ctx, b, of, name, active)
			return s.Author(image), err
		}
	}
	return authorship.Author{}, fmt.Errorf("FunctionRevision %s is not active any more", name)
}

// functionSource of an active revision of a Function by its name. All Functions are read at once: a change has the revisions of several of them as
// causes.
func functionSource(ctx context.Context, b *Builds, name, revision string, active map[string]string) (authorship.Source, error) {
	return shared(ctx, b, sourceKey(function, name, revision), readTTL, func(ctx context.Context, client dynamic.Interface) (out authorship.Source, err error) {
		all, err := client.Resource(function).List(ctx, metav1.ListOptions{})
		if kerrors.IsNotFound(err) {
			return out, nil
		}
		if err != nil {
			return out, fmt.Errorf("cannot list the Functions: %w", err)
		}
		for i := range all.Items {
			of, s := all.Items[i].GetName(), authorship.SourceOf(&all.Items[i])
			if of == name {
				out = s
			} else if other, _ := decoded(active[of]); other != "" {
				b.read.Add(sourceKey(function, of, other), s, readTTL)
			}
		}
		return out, nil
	})
}

// source of a revision by its name; the zero one where it is gone. For each revision it is read: what was read for the one before does not show
// who made the next.
func (b *Builds) source(ctx context.Context, r schema.GroupVersionResource, name, revision string) (authorship.Source, error) {
	return shared(ctx, b, sourceKey(r, name, revision), readTTL, func(ctx context.Context, client dynamic.Interface) (authorship.Source, error) {
		o, err := client.Resource(r).Get(ctx, name, metav1.GetOptions{})
		if kerrors.IsNotFound(err) {
			return authorship.Source{}, nil
		}
		if err != nil {
			return authorship.Source{}, fmt.Errorf("cannot read %s %s: %w", r.Resource, name, err)
		}
		return authorship.SourceOf(o), nil
	})
}

// sourceKey returns that of the source of a revision, by its resource and name.
func sourceKey(r schema.GroupVersionResource, name, revision string) string {
	return r.Resource + "/" + name + "/" + revision
}
