package main

import (
	"fmt"
	"strings"

	"github.com/kausality-io/function-kausality/admission/identity"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// target is an object that the command line or a Drift names.
type target struct {
	*unstructured.Unstructured
	client dynamic.ResourceInterface
	// resource is its plural with group, as in xdatabases.example.org.
	resource string
}

// slashed is TYPE/NAME as kubectl prints it.
func (t target) slashed() string {
	kind := t.GroupVersionKind()
	out := strings.ToLower(kind.Kind)
	if kind.Group != "" {
		out += "." + kind.Group
	}
	return out + "/" + t.GetName()
}

// arg is how the object is named on a command line, with its namespace.
func (t target) arg() string {
	out := t.resource + "/" + t.GetName()
	if ns := t.GetNamespace(); ns != "" {
		out = "-n " + ns + " " + out
	}
	return out
}

func (t target) ref() parent.Ref  { return parent.RefOf(t.Unstructured) }
func (t target) describe() string { return identity.Describe(t.ref()) }

// object that the arguments name: TYPE/NAME or TYPE NAME.
func (c *cli) object(cmd *cobra.Command, args []string) (target, error) {
	list, err := c.objects(cmd, args)
	if err != nil {
		return target{}, err
	}
	if len(list) != 1 {
		return target{}, usageError{fmt.Errorf("%s takes one object, %d are named; see %s --help", cmd.CommandPath(), len(list), cmd.CommandPath())}
	}
	return list[0], nil
}

// objects that the arguments name, each once, read live.
func (c *cli) objects(cmd *cobra.Command, args []string) ([]target, error) {
	if len(args) == 0 {
		return nil, usageError{fmt.Errorf("name an object as TYPE/NAME; see %s --help", cmd.CommandPath())}
	}
	if len(args) == 1 && !strings.Contains(args[0], "/") {
		return nil, usageError{fmt.Errorf("%q is no object: name one as TYPE/NAME, as in xdatabase/orders", args[0])}
	}
	return c.read(args, func(b *resource.Builder) *resource.Builder { return b })
}

// read what the arguments, and what else is asked of the builder, mean.
func (c *cli) read(args []string, ask func(*resource.Builder) *resource.Builder) ([]target, error) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	b := resource.NewBuilder(c.kube).Unstructured().NamespaceParam(ns).DefaultNamespace().ResourceTypeOrNameArgs(false, args...)
	infos, err := ask(b).Latest().Flatten().Do().Infos()
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", strings.Join(args, " "), err)
	}
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	out, have := make([]target, 0, len(infos)), map[string]bool{}
	for _, i := range infos {
		u, ok := i.Object.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("cannot read %s: it is a %T", i.Name, i.Object)
		}
		if t := newTarget(client, i.Mapping, u); !have[t.arg()] {
			have[t.arg()] = true
			out = append(out, t)
		}
	}
	return out, nil
}

func newTarget(client dynamic.Interface, m *meta.RESTMapping, u *unstructured.Unstructured) target {
	t := target{Unstructured: u, client: client.Resource(m.Resource), resource: m.Resource.GroupResource().String()}
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		t.client = client.Resource(m.Resource).Namespace(u.GetNamespace())
	}
	return t
}

// target that a reference names; it is not read.
func (c *cli) target(ref parent.Ref) (target, error) {
	mapper, err := c.mapper()
	if err != nil {
		return target{}, err
	}
	m, err := mapper.RESTMapping(ref.GroupKind(), ref.Version)
	if err != nil {
		return target{}, fmt.Errorf("cannot find the resource of kind %s: %w", ref.GroupKind(), err)
	}
	client, err := c.client()
	if err != nil {
		return target{}, err
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(ref.GroupVersionKind)
	u.SetName(ref.Name)
	u.SetUID(ref.UID)
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		u.SetNamespace(ref.Namespace)
	}
	return newTarget(client, m, u), nil
}

func refOf(o v1alpha1.ObjectReference) parent.Ref {
	u := unstructured.Unstructured{}
	u.SetAPIVersion(o.APIVersion)
	u.SetKind(o.Kind)
	return parent.Ref{GroupVersionKind: u.GroupVersionKind(), Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

// resourceOf a TYPE of the command line, as in xdatabases or
// xdatabases.example.org.
func resourceOf(kind string) schema.GroupVersionResource {
	name, group, _ := strings.Cut(kind, ".")
	return schema.GroupVersionResource{Group: group, Resource: name}
}
