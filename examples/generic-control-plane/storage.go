package main

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage/names"

	gardenv1 "github.com/kausality-io/function-kausality/examples/generic-control-plane/garden/v1"
)

// kind that is stored.
type kind struct {
	version            schema.GroupVersion
	resource, singular string
	namespaced         bool
	object, list       func() runtime.Object
	// update and status restore what a client may not change, of the object and of its status; nil for nothing, or for no status.
	update, status func(now, old runtime.Object)
}

// kinds that the program itself serves.
var kinds = []kind{{
	version: gardenv1.GroupVersion, resource: "gardens", singular: "garden", namespaced: true,
	object: func() runtime.Object { return &gardenv1.Garden{} }, list: func() runtime.Object { return &gardenv1.GardenList{} },
	update: func(now, old runtime.Object) {
		n, o := now.(*gardenv1.Garden), old.(*gardenv1.Garden)
		n.Status = o.Status
		n.Generation = next(o.Generation, equality.Semantic.DeepEqual(n.Spec, o.Spec))
	},
	status: func(now, old runtime.Object) {
		n, o := now.(*gardenv1.Garden), old.(*gardenv1.Garden)
		n.Spec = o.Spec
		metav1.ResetObjectMetaForStatus(n, o)
	},
}, {
	version: gardenv1.GroupVersion, resource: "plants", singular: "plant", namespaced: true,
	object: func() runtime.Object { return &gardenv1.Plant{} }, list: func() runtime.Object { return &gardenv1.PlantList{} },
	update: func(now, old runtime.Object) {
		n, o := now.(*gardenv1.Plant), old.(*gardenv1.Plant)
		n.Generation = next(o.Generation, equality.Semantic.DeepEqual(n.Spec, o.Spec))
	},
}, {
	version: corev1.SchemeGroupVersion, resource: "namespaces", singular: "namespace",
	object: func() runtime.Object { return &corev1.Namespace{} }, list: func() runtime.Object { return &corev1.NamespaceList{} },
}, {
	version: coordinationv1.SchemeGroupVersion, resource: "leases", singular: "lease", namespaced: true,
	object: func() runtime.Object { return &coordinationv1.Lease{} }, list: func() runtime.Object { return &coordinationv1.LeaseList{} },
}, {
	version: eventsv1.SchemeGroupVersion, resource: "events", singular: "event", namespaced: true,
	object: func() runtime.Object { return &eventsv1.Event{} }, list: func() runtime.Object { return &eventsv1.EventList{} },
}}

// next generation of an object, whose spec is the same or not.
func next(generation int64, same bool) int64 {
	if same {
		return generation
	}
	return generation + 1
}

// install all kinds in a server.
func install(s *genericserver.GenericAPIServer, options generic.RESTOptionsGetter) error {
	groups := map[schema.GroupVersion]map[string]rest.Storage{}
	for _, k := range kinds {
		if groups[k.version] == nil {
			groups[k.version] = map[string]rest.Storage{}
		}
		if err := k.store(groups[k.version], options); err != nil {
			return err
		}
	}
	for version, storage := range groups {
		group := genericserver.NewDefaultAPIGroupInfo(version.Group, scheme, metav1.ParameterCodec, codecs)
		group.VersionedResourcesStorageMap[version.Version] = storage
		add := s.InstallAPIGroup
		if version.Group == "" {
			add = func(g *genericserver.APIGroupInfo) error {
				return s.InstallLegacyAPIGroup(genericserver.DefaultLegacyAPIPrefix, g)
			}
		}
		if err := add(&group); err != nil {
			return fmt.Errorf("cannot serve %s: %w", version, err)
		}
	}
	return nil
}

// store of a kind, and of its status.
func (k kind) store(in map[string]rest.Storage, options generic.RESTOptionsGetter) error {
	resource := schema.GroupResource{Group: k.version.Group, Resource: k.resource}
	whole := strategy{ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator, namespaced: k.namespaced, update: k.update}
	s := &registry.Store{
		NewFunc: k.object, NewListFunc: k.list, DefaultQualifiedResource: resource,
		SingularQualifiedResource: schema.GroupResource{Group: k.version.Group, Resource: k.singular},
		CreateStrategy:            whole, UpdateStrategy: whole, DeleteStrategy: whole, TableConvertor: rest.NewDefaultTableConvertor(resource),
	}
	if err := s.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return fmt.Errorf("cannot store %s: %w", resource, err)
	}
	in[k.resource] = s
	if k.status != nil {
		of := *s
		whole.update = k.status
		of.UpdateStrategy = whole
		in[k.resource+"/status"] = &statusOf{store: &of}
	}
	return nil
}

// strategy by which objects are written.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	namespaced bool
	update     func(now, old runtime.Object)
}

func (s strategy) NamespaceScoped() bool { return s.namespaced }

func (strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetGeneration(1)
	}
	if g, ok := obj.(*gardenv1.Garden); ok {
		g.Status = gardenv1.GardenStatus{}
	}
}

func (s strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	if s.update != nil {
		s.update(obj, old)
	}
}

func (strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList { return validate(obj) }

func (strategy) ValidateUpdate(_ context.Context, obj, _ runtime.Object) field.ErrorList {
	return validate(obj)
}

func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }
func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}
func (strategy) AllowCreateOnUpdate() bool      { return false }
func (strategy) AllowUnconditionalUpdate() bool { return true }
func (strategy) Canonicalize(runtime.Object)    {}

// validate an object.
func validate(obj runtime.Object) field.ErrorList {
	if g, ok := obj.(*gardenv1.Garden); ok && (g.Spec.Plants < 0 || g.Spec.Plants > maxPlants) {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "plants"), g.Spec.Plants, fmt.Sprintf("must be between 0 and %d", maxPlants))}
	}
	return nil
}

// maxPlants of a garden.
const maxPlants = 100

// statusOf a kind.
type statusOf struct{ store *registry.Store }

func (s *statusOf) New() runtime.Object { return s.store.New() }
func (*statusOf) Destroy()              {} // the store of the objects has the connection

func (s *statusOf) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, o)
}

func (s *statusOf) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc,
	_ bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, info, create, update, false, o)
}
