package main

import (
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	gardenv1 "github.com/kausality-io/function-kausality/examples/generic-control-plane/garden/v1"
)

// scheme of the kinds that are served by the program itself. A kind has one version, whose type is the internal one, too.
var scheme, codecs = func() (*runtime.Scheme, serializer.CodecFactory) {
	s := runtime.NewScheme()
	for gv, types := range served {
		s.AddKnownTypes(gv, types...)
		s.AddKnownTypes(schema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal}, types...)
		metav1.AddToGroupVersion(s, gv)
		utilruntime.Must(s.SetVersionPriority(gv))
	}
	s.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{},
		&metav1.APIResourceList{})
	return s, serializer.NewCodecFactory(s)
}()

// served kinds: those of the example, and what Kausality needs beside its CRDs.
var served = map[schema.GroupVersion][]runtime.Object{
	gardenv1.GroupVersion:             {&gardenv1.Garden{}, &gardenv1.GardenList{}, &gardenv1.Plant{}, &gardenv1.PlantList{}},
	corev1.SchemeGroupVersion:         {&corev1.Namespace{}, &corev1.NamespaceList{}},
	coordinationv1.SchemeGroupVersion: {&coordinationv1.Lease{}, &coordinationv1.LeaseList{}},
	eventsv1.SchemeGroupVersion:       {&eventsv1.Event{}, &eventsv1.EventList{}},
}

// versions in which objects are stored.
func versions() (all []schema.GroupVersion) { return slices.Collect(maps.Keys(served)) }

// definitions of all types in OpenAPI. Those of Kubernetes that no library has are objects with any fields.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := apiextensions.GetOpenAPIDefinitions(ref)
	for name, d := range gardenv1.GetOpenAPIDefinitions(ref) {
		all[name] = d
	}
	for _, t := range []struct{ list, item util.OpenAPIModelNamer }{
		{corev1.NamespaceList{}, corev1.Namespace{}}, {coordinationv1.LeaseList{}, coordinationv1.Lease{}}, {eventsv1.EventList{}, eventsv1.Event{}},
	} {
		all[t.item.OpenAPIModelName()] = anyFields(map[string]spec.Schema{"metadata": reference(ref, metav1.ObjectMeta{})}, metav1.ObjectMeta{})
		all[t.list.OpenAPIModelName()] = anyFields(map[string]spec.Schema{"metadata": reference(ref, metav1.ListMeta{}), "items": items(reference(ref, t.item))},
			metav1.ListMeta{}, t.item)
	}
	return all
}

// anyFields is an object with some known fields, which refer to types, and any others.
func anyFields(known map[string]spec.Schema, types ...util.OpenAPIModelNamer) common.OpenAPIDefinition {
	known["apiVersion"], known["kind"] = *spec.StringProperty(), *spec.StringProperty()
	d := common.OpenAPIDefinition{Schema: spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: known}}}
	d.Schema.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	for _, t := range types {
		d.Dependencies = append(d.Dependencies, t.OpenAPIModelName())
	}
	return d
}

func reference(ref common.ReferenceCallback, to util.OpenAPIModelNamer) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(to.OpenAPIModelName())}}
}

func items(of spec.Schema) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"array"}, Items: &spec.SchemaOrArray{Schema: &of}}}
}
