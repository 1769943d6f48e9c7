package inspect

import (
	"context"
	"fmt"
	"slices"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// IsGraph reports whether an object is a graph of kro.
func IsGraph(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == authorship.GraphKind.GroupKind()
}

// ByGraph returns the open Drifts that revisions of a graph are a cause of, in all namespaces: they are about children of its instances.
func ByGraph(ctx context.Context, client dynamic.Interface, graph *unstructured.Unstructured) ([]v1alpha1.Drift, error) {
	list, err := client.Resource(authorship.GraphRevisionResource).List(ctx, metav1.ListOptions{FieldSelector: "spec.snapshot.name=" + graph.GetName()})
	if err != nil && !kerrors.IsNotFound(err) { // a kro that has none
		return nil, fmt.Errorf("cannot list the GraphRevisions of %s: %w", graph.GetName(), err)
	}
	revisions := map[string]bool{}
	for n := 0; err == nil && n < len(list.Items); n++ {
		o := &list.Items[n]
		revisions[o.GetName()] = authorship.GraphRevisionOf(o).IsOf(graph.GetUID())
	}
	return Drifts(ctx, client, metav1.NamespaceAll, func(d *v1alpha1.Drift) bool {
		return channel.Open(d) && slices.ContainsFunc(d.Spec.Causes, func(c v1alpha1.HopCause) bool {
			return c.Kind == v1alpha1.CauseGraph && revisions[c.Name]
		})
	})
}

// Build has the revision of the graph that kro carries out for an instance (KR-18-05). The images of controllers are unknown to a
// command, and so is what the user may not read, which the explanation names.
func (q question) Build(ctx context.Context, _ *admission.Request, p *parent.State) (out allowance.Build, err error) {
	if p == nil || q.Kind(p.GroupVersionKind).Graph == "" {
		return out, nil
	}
	b, err := q.inspector.builds.Of(ctx, subject.User{}, p, q.Kind(p.GroupVersionKind).Graph)
	out.Graph, out.Unread = b.Graph, b.Unread && !kerrors.IsForbidden(err)
	return out, q.note(err)
}

// Author returns the author of a revision of a graph, as the webhook finds it (KR-07-11).
func (q question) Author(ctx context.Context, c v1alpha1.HopCause) (v1alpha1.HopCause, error) {
	if c.Kind != v1alpha1.CauseGraph {
		return c, nil
	}
	found, err := q.inspector.builds.Author(ctx, c)
	if err != nil {
		return c, q.note(err)
	}
	traced := found.User != "" && !found.Copied && q.direct.Reviews(ctx, &parent.State{Ref: parent.Ref{GroupVersionKind: authorship.GraphKind}})
	return found.Cause(c, traced), nil
}

// revision returns the revision of the graph that kro carries out for an instance, with its author; nil for another parent, and where it is unknown.
func (q question) revision(ctx context.Context, p *parent.State) (*v1alpha1.HopCause, error) {
	b, err := q.Build(ctx, nil, p)
	if err != nil || b.Graph.Name == "" {
		return nil, err
	}
	c, err := q.Author(ctx, v1alpha1.HopCause{Kind: v1alpha1.CauseGraph, Name: b.Graph.Name})
	return &c, err
}

// note notes an error that the user may not read a graph, for the explanation; any other is returned.
func (q question) note(err error) error {
	if !kerrors.IsForbidden(err) {
		return err
	}
	q.inspector.mu.Lock()
	defer q.inspector.mu.Unlock()
	if text := err.Error(); !slices.Contains(q.inspector.noted, text) {
		q.inspector.noted = append(q.inspector.noted, text)
	}
	return nil
}

// members returns the members of the ApplySet of an instance, which names none of its children: objects that name the instance, of the kinds and in the
// namespaces that it declares (KR-18-01). unread are for the kinds that the user may not list.
func members(ctx context.Context, i *Inspector, p *parent.State) (out []parent.Ref, unread []Descendant, err error) {
	of := parent.MembershipOf(p)
	for _, kind := range of.Kinds {
		m, err := i.mapper.RESTMapping(kind)
		if meta.IsNoMatchError(err) {
			continue // its CRD is gone
		}
		if err != nil {
			return nil, nil, fmt.Errorf("cannot find the resource of kind %s: %w", kind, err)
		}
		namespaces := of.Namespaces
		if m.Scope.Name() != meta.RESTScopeNameNamespace {
			namespaces = []string{metav1.NamespaceAll}
		}
		for _, ns := range namespaces {
			found, err := membersOf(ctx, i, p, m, ns)
			if err != nil && !kerrors.IsForbidden(err) {
				return nil, nil, err
			}
			if err != nil {
				all := v1alpha1.ObjectReference{Kind: m.GroupVersionKind.Kind, Namespace: ns, Name: "*"}
				unread = append(unread, Descendant{Object: all, Note: "you may not list them"})
			}
			out = append(out, found...)
		}
	}
	return out, unread, nil
}

// membersOf returns the members of one kind, in a namespace.
func membersOf(ctx context.Context, i *Inspector, p *parent.State, m *meta.RESTMapping, namespace string) (out []parent.Ref, err error) {
	for o, err := range informer.Labelled(ctx, ClientOf(i.Direct.Dynamic, m, namespace), parent.MembershipOf(p).Selector, informer.PageSize) {
		if err != nil {
			return nil, fmt.Errorf("cannot list %s: %w", m.Resource.GroupResource(), err)
		}
		c, err := i.look(ctx, o)
		if err != nil {
			return nil, err
		}
		if c.Parent.UID == p.UID && parent.Linked(p, c.Ref, c.Member) {
			out = append(out, c.Ref)
		}
	}
	return out, nil
}
