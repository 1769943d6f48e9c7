package builtin

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// types of the built-in kinds. It is made once, and not modified after it.
var types = sync.OnceValue(func() map[schema.GroupVersionKind]reflect.Type {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistrationv1.AddToScheme, admissionregistrationv1beta1.AddToScheme, admissionregistrationv1alpha1.AddToScheme,
		appsv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme,
		certificatesv1.AddToScheme, certificatesv1beta1.AddToScheme, certificatesv1alpha1.AddToScheme,
		coordinationv1.AddToScheme, coordinationv1beta1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme,
		eventsv1.AddToScheme, flowcontrolv1.AddToScheme, networkingv1.AddToScheme, networkingv1beta1.AddToScheme,
		nodev1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme,
		resourcev1.AddToScheme, resourcev1beta1.AddToScheme, resourcev1beta2.AddToScheme,
		schedulingv1.AddToScheme, storagev1.AddToScheme, storagev1beta1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s.AllKnownTypes()
})

// typeOf returns the Go type of the kind of a manifest; nil for a kind that is not built in.
func typeOf(manifest map[string]any) reflect.Type {
	apiVersion, _ := manifest["apiVersion"].(string)
	kind, _ := manifest["kind"].(string)
	return types()[schema.FromAPIVersionAndKind(apiVersion, kind)]
}

// Has reports whether the kind of a manifest is built in.
func Has(manifest map[string]any) bool { return typeOf(manifest) != nil }

// field of a Go type, as its JSON has it.
type field struct {
	typ reflect.Type
	// pointer: a zero value is stored, and differs from a field that is not set.
	pointer bool
	// key that identifies the items of a list; empty for none.
	key string
}

// fieldsCache has the fields of types by their JSON names: map[string]field by
// reflect.Type. There are as many as built-in types.
var fieldsCache sync.Map

// fieldsOf returns the fields of a struct by their JSON names; those of embedded structs included.
func fieldsOf(t reflect.Type) map[string]field {
	if known, ok := fieldsCache.Load(t); ok {
		return known.(map[string]field)
	}
	out := map[string]field{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && f.Anonymous && f.Type.Kind() == reflect.Struct:
			maps.Copy(out, fieldsOf(f.Type))
		case name != "":
			out[name] = field{typ: f.Type, pointer: f.Type.Kind() == reflect.Pointer, key: f.Tag.Get("patchMergeKey")}
		}
	}
	fieldsCache.Store(t, out)
	return out
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// opaque reports whether the fields of a struct are not those of its JSON, as of
// runtime.RawExtension.
func opaque(t reflect.Type) bool { return reflect.PointerTo(t).Implements(unmarshaler) }
