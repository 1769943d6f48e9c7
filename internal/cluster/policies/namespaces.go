package policies

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// NamespaceResource is the resource of Namespaces.
var NamespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// Namespaces knows what is declared on each Namespace, its labels, and
// which are being deleted.
type Namespaces struct {
	informer cache.SharedIndexInformer
	client   dynamic.Interface
}

// Namespace is what is kept of a Namespace.
type Namespace struct {
	informer.Meta
	Declared settings.Namespace
	Labels   map[string]string
}

// NamespaceOf an object, for the cache.
func NamespaceOf(o *unstructured.Unstructured) *Namespace {
	return &Namespace{
		Meta: informer.MetaOf(o), Labels: o.GetLabels(),
		Declared: settings.NamespaceOf(o.GetAnnotations(), o.GetLabels(), o.GetDeletionTimestamp() != nil),
	}
}

// NewNamespaces returns Namespaces that is empty until Run.
func NewNamespaces(client dynamic.Interface) *Namespaces {
	return &Namespaces{client: client, informer: informer.New(client, NamespaceResource, "", func(o *unstructured.Unstructured) any {
		return NamespaceOf(o)
	})}
}

// Run the watch until the context ends.
func (n *Namespaces) Run(ctx context.Context) { n.informer.RunWithContext(ctx) }

// HasSynced reports whether the Namespaces are known.
func (n *Namespaces) HasSynced() bool { return n.informer.HasSynced() }

// OnChange calls f with the name of each Namespace whose mode, freeze or labels changed,
// or whose deletion was requested. Call it before Run.
func (n *Namespaces) OnChange(f func(name string)) error {
	_, err := n.informer.AddEventHandler(informer.Handler("namespaces", cache.ResourceEventHandlerFuncs{UpdateFunc: func(a, b any) {
		old, ok := a.(*Namespace)
		new, ok2 := b.(*Namespace)
		if ok && ok2 && (!old.Declared.Equal(new.Declared)) {
			f(new.ObjectMeta.Name)
		}
	}}))
	return err
}

// of a name; nil where there is no such Namespace.
func (n *Namespaces) of(name string) *Namespace {
	o, _, err := n.informer.GetStore().GetByKey(name)
	if err != nil {
		return nil // keys of strings have no errors
	}
	ns, _ := o.(*Namespace)
	return ns
}

// Terminating reports whether a Namespace is being deleted.
func (n *Namespaces) Terminating(name string) bool {
	ns := n.of(name)
	return ns != nil && ns.Declared.Terminating
}

// Get what is declared on a Namespace, from the watch or live; zero where it does not
// exist.
func (n *Namespaces) Get(ctx context.Context, name string, live bool) (settings.Namespace, error) {
	if live {
		return n.read(ctx, name)
	}
	if !n.informer.HasSynced() {
		return settings.Namespace{}, fmt.Errorf("namespaces are not read yet")
	}
	if ns := n.of(name); ns != nil {
		return ns.Declared, nil
	}
	return settings.Namespace{}, nil
}

// LabelsNow returns the labels of a Namespace, read live where the watch does not have it; nil where it does not exist.
func (n *Namespaces) LabelsNow(ctx context.Context, name string) (map[string]string, error) {
	if ns := n.of(name); ns != nil {
		return ns.Labels, nil
	}
	o, err := ReadNamespace(ctx, n.client, name)
	if err != nil {
		return nil, fmt.Errorf("cannot read namespace %s: %w", name, err)
	}
	if o == nil {
		return nil, nil
	}
	return o.GetLabels(), nil
}

// read what is declared on a Namespace, as a list of one: the permission to watch Namespaces suffices.
func (n *Namespaces) read(ctx context.Context, name string) (settings.Namespace, error) {
	o, err := ReadNamespace(ctx, n.client, name)
	switch {
	case err != nil:
		return settings.Namespace{}, fmt.Errorf("cannot read namespace %s: %w", name, err)
	case o == nil:
		return settings.Namespace{}, nil
	}
	return NamespaceOf(o).Declared, nil
}

// ReadNamespace reads a Namespace, as a list of one; nil where it does not exist.
func ReadNamespace(ctx context.Context, client dynamic.Interface, name string) (*unstructured.Unstructured, error) {
	list, err := client.Resource(NamespaceResource).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil || len(list.Items) != 1 {
		return nil, err
	}
	return &list.Items[0], nil
}

// Frozen returns the names of the Namespaces with a freeze.
func (n *Namespaces) Frozen() (out []string) {
	for _, o := range n.informer.GetStore().List() {
		if ns, ok := o.(*Namespace); ok && ns.Declared.Freeze != "" {
			out = append(out, ns.ObjectMeta.Name)
		}
	}
	return out
}

// Labels of a Namespace; nil where it does not exist. They must not be modified.
func (n *Namespaces) Labels(name string) map[string]string {
	if ns := n.of(name); ns != nil {
		return ns.Labels
	}
	return nil
}
