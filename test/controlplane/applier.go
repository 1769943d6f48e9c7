package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// How long an apply waits for a kind to be served, and for a CRD to be established.
const (
	kindTimeout = 15 * time.Second
	crdTimeout  = 30 * time.Second
)

// An Applier applies manifests on the server side, as one user and one field manager, forcing
// conflicts. It is safe for concurrent use.
type Applier struct {
	manager string
	client  dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

// NewApplier returns an Applier that is the user of cfg.
func NewApplier(cfg *rest.Config, fieldManager string) (*Applier, error) {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}

	dc, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot make a discovery client: %w", err)
	}

	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(dc))

	return &Applier{manager: fieldManager, client: client, mapper: mapper}, nil
}

// Apply applies a stream of YAML or JSON documents as the admin. See Applier.Apply.
func (c *ControlPlane) Apply(ctx context.Context, manifests []byte) error {
	return c.applier.Apply(ctx, manifests)
}

// Apply applies a stream of YAML or JSON documents, in their order, except that
// CustomResourceDefinitions come first and are established before the rest. A namespaced object
// without a namespace goes to "default". A kind that is not served yet is waited for, 15 seconds.
func (a *Applier) Apply(ctx context.Context, manifests []byte) error {
	objs, err := Decode(manifests)
	if err != nil {
		return err
	}

	return a.apply(ctx, objs)
}

// Objects applies typed objects, which must have apiVersion and kind.
func (a *Applier) Objects(ctx context.Context, objs ...any) error {
	us := make([]*unstructured.Unstructured, 0, len(objs))

	for _, o := range objs {
		u := &unstructured.Unstructured{}

		data, err := json.Marshal(o)
		if err == nil {
			err = u.UnmarshalJSON(data)
		}

		if err != nil {
			return fmt.Errorf("cannot encode a %T: %w", o, err)
		}

		us = append(us, u)
	}

	return a.apply(ctx, us)
}

func (a *Applier) apply(ctx context.Context, objs []*unstructured.Unstructured) error {
	crds, rest := split(objs)

	for _, o := range crds {
		if _, err := a.applyOne(ctx, o); err != nil {
			return err
		}
	}

	for _, o := range crds {
		if err := a.awaitEstablished(ctx, o.GetName()); err != nil {
			return err
		}
	}

	for _, o := range rest {
		if _, err := a.applyOne(ctx, o); err != nil {
			return err
		}
	}

	return nil
}

// applyOne applies an object and returns what is stored.
func (a *Applier) applyOne(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return a.send(ctx, o)
}

// applyStatus applies the status of an object that exists.
func (a *Applier) applyStatus(ctx context.Context, o *unstructured.Unstructured) error {
	_, err := a.send(ctx, o, "status")
	return err
}

// send applies o, or a subresource of it, repeatedly as long as its kind is not served.
func (a *Applier) send(ctx context.Context, o *unstructured.Unstructured, subresources ...string) (*unstructured.Unstructured, error) {
	var (
		stored *unstructured.Unstructured
		failed error
	)

	err := Eventually(ctx, "the API of "+o.GroupVersionKind().String(), kindTimeout, func(ctx context.Context) error {
		ri, err := a.resource(o)
		if err == nil {
			stored, err = ri.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: a.manager, Force: true}, subresources...)
		}

		if notServed(err) {
			a.mapper.Reset()
			return err
		}

		failed = err

		return nil
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("cannot apply %s %s: %w", o.GetKind(), nameIn(o), err)
	}

	return stored, nil
}

// resource returns the client for o, and gives o the namespace "default" if it needs one.
func (a *Applier) resource(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := o.GroupVersionKind()

	m, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}

	if m.Scope.Name() != meta.RESTScopeNameNamespace {
		return a.client.Resource(m.Resource), nil
	}

	if o.GetNamespace() == "" {
		o.SetNamespace(metav1.NamespaceDefault)
	}

	return a.client.Resource(m.Resource).Namespace(o.GetNamespace()), nil
}

// notServed reports whether the API server does not know the kind, be it in discovery or behind it.
func notServed(err error) bool {
	return meta.IsNoMatchError(err) || discovery.IsGroupDiscoveryFailedError(err) ||
		apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// awaitEstablished waits until the API server serves what the CRD defines.
func (a *Applier) awaitEstablished(ctx context.Context, name string) error {
	return Eventually(ctx, "CustomResourceDefinition "+name, crdTimeout, func(ctx context.Context) error {
		crd, err := a.client.Resource(crdResource).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}

		return ConditionTrue(crd, "Established")
	})
}
