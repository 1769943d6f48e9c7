package builds

import (
	"cmp"
	"context"
	"fmt"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/authorship"
)

var graph, graphRevision = authorship.GraphResource, authorship.GraphRevisionResource

// newest revision of a graph, which kro carries out for all of its instances (v0.9.3, pkg/controller/instance); the zero one where there
// is none, and where the graph does not define the kind of the instance. The graph is read each time: kro carries out the next revision
// a moment after it made it.
func (b *Builds) newest(ctx context.Context, name string, instance schema.GroupKind) (authorship.GraphRevision, error) {
	of, err := b.client.Resource(graph).Get(ctx, name, metav1.GetOptions{})
	if kerrors.IsNotFound(err) || err == nil && defines(of) != instance {
		return authorship.GraphRevision{}, nil
	}
	if err != nil {
		return authorship.GraphRevision{}, fmt.Errorf("cannot read ResourceGraphDefinition %s: %w", name, err)
	}
	if have, ok := b.graphs.Get(of.GetUID()); ok && have.(authorship.GraphRevision).Generation == of.GetGeneration() {
		return have.(authorship.GraphRevision), nil
	}
	all, err := b.client.Resource(graphRevision).List(ctx, metav1.ListOptions{FieldSelector: "spec.snapshot.name=" + name})
	if err != nil && !kerrors.IsNotFound(err) { // a kro that has none
		return authorship.GraphRevision{}, fmt.Errorf("cannot list the GraphRevisions of %s: %w", name, err)
	}
	var out authorship.GraphRevision
	for i := 0; err == nil && i < len(all.Items); i++ {
		r := authorship.GraphRevisionOf(&all.Items[i])
		if r.IsOf(of.GetUID()) && r.Number > out.Number {
			out = r
		}
	}
	if out.Name != "" {
		b.graphs.Add(of.GetUID(), out)
	}
	return out, nil
}

// defines returns the kind of the instances of a graph, which never changes.
func defines(graph *unstructured.Unstructured) schema.GroupKind {
	spec, _ := graph.Object["spec"].(map[string]any)
	s, _ := spec["schema"].(map[string]any)
	group, _ := s["group"].(string)
	kind, _ := s["kind"].(string)
	return schema.GroupKind{Group: cmp.Or(group, authorship.GraphKind.Group), Kind: kind}
}

// graphAuthor of a revision.
func (b *Builds) graphAuthor(ctx context.Context, name string) (authorship.Author, error) {
	o, err := b.client.Resource(graphRevision).Get(ctx, name, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return authorship.Author{}, nil
	}
	if err != nil {
		return authorship.Author{}, fmt.Errorf("cannot read GraphRevision %s: %w", name, err)
	}
	r := authorship.GraphRevisionOf(o)
	if r.Of == "" {
		return authorship.Author{}, nil
	}
	s, err := b.source(ctx, graph, r.Of, name+"/"+string(r.UID))
	return r.Author(s), err
}
