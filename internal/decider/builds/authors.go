package builds

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var (
	composition = schema.GroupVersionResource{Group: "apiextensions.crossplane.io", Version: "v1", Resource: "compositions"}
	function    = schema.GroupVersionResource{Group: "pkg.crossplane.io", Version: "v1", Resource: "functions"}
)

// authorsTTL is for how long a Composition, Function or graph is cached, of which a revision is a cause.
const authorsTTL = 10 * time.Second

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
		var nameAndImage []string
		if err := json.Unmarshal([]byte(encoded), &nameAndImage); err != nil || len(nameAndImage) != 2 || nameAndImage[0] != name {
			continue
		}
		s, err := b.source(ctx, function, of, name)
		return s.Author(nameAndImage[1]), err
	}
	return authorship.Author{}, nil
}

// source of a revision by its name; the zero one where it is gone. For each revision it is read: what was read for the one before does not show
// who made the next.
func (b *Builds) source(ctx context.Context, r schema.GroupVersionResource, name, revision string) (authorship.Source, error) {
	key := r.Resource + "/" + name + "/" + revision
	if have, ok := b.sources.Get(key); ok {
		return have.(authorship.Source), nil
	}
	o, err := b.client.Resource(r).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !kerrors.IsNotFound(err) {
		return authorship.Source{}, fmt.Errorf("cannot read %s %s: %w", r.Resource, name, err)
	}
	var out authorship.Source
	if err == nil {
		out = authorship.SourceOf(o)
	}
	b.sources.Add(key, out, authorsTTL)
	return out, nil
}
