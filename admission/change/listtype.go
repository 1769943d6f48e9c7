package change

import (
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ListType declares how the items of a list are identified.
type ListType struct {
	// Keys are the fields that identify an item of a list of maps; empty where the list has no keys.
	Keys []string
	// Set: items are identified by their value. Keys are empty then.
	Set bool
}

// Lists returns the ListType of the list at a path, for the lists of a kind. It is the zero ListType where the list
// has none, and items are identified by their index. It is safe for concurrent use, and does not keep the path.
type Lists interface {
	ListType(path []Segment) ListType
}

// builtinTypes are the Go types of Kubernetes' own kinds that have lists in their desired state, by kind.
var builtinTypes = map[schema.GroupVersionKind]reflect.Type{
	appsv1.SchemeGroupVersion.WithKind("Deployment"):                     reflect.TypeFor[appsv1.Deployment](),
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):                     reflect.TypeFor[appsv1.ReplicaSet](),
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"):                    reflect.TypeFor[appsv1.StatefulSet](),
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"):                      reflect.TypeFor[appsv1.DaemonSet](),
	autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"): reflect.TypeFor[autoscalingv2.HorizontalPodAutoscaler](),
	batchv1.SchemeGroupVersion.WithKind("Job"):                           reflect.TypeFor[batchv1.Job](),
	batchv1.SchemeGroupVersion.WithKind("CronJob"):                       reflect.TypeFor[batchv1.CronJob](),
	corev1.SchemeGroupVersion.WithKind("Pod"):                            reflect.TypeFor[corev1.Pod](),
	corev1.SchemeGroupVersion.WithKind("PodTemplate"):                    reflect.TypeFor[corev1.PodTemplate](),
	corev1.SchemeGroupVersion.WithKind("ReplicationController"):          reflect.TypeFor[corev1.ReplicationController](),
	corev1.SchemeGroupVersion.WithKind("Service"):                        reflect.TypeFor[corev1.Service](),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"):                 reflect.TypeFor[corev1.ServiceAccount](),
	networkingv1.SchemeGroupVersion.WithKind("Ingress"):                  reflect.TypeFor[networkingv1.Ingress](),
	networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"):            reflect.TypeFor[networkingv1.NetworkPolicy](),
}

// BuiltinLists returns the lists of a kind of Kubernetes' own; nil for any other kind. Their keys are the merge keys
// of its strategic merge patches, which are struct tags of its Go type.
func BuiltinLists(gvk schema.GroupVersionKind) Lists {
	t, ok := builtinTypes[gvk]
	if !ok {
		return nil
	}
	return goType{t}
}

// goType is a Go type with fields that have the tags json, patchMergeKey and patchStrategy.
type goType struct{ reflect.Type }

// ListType returns the ListType of the list at a path.
func (g goType) ListType(path []Segment) ListType {
	t, tag := g.Type, reflect.StructTag("")
	for _, s := range path {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Slice, reflect.Map:
			t, tag = t.Elem(), ""
		case reflect.Struct:
			f, ok := jsonField(t, s.Key)
			if !ok {
				return ListType{}
			}
			t, tag = f.Type, f.Tag
		default:
			return ListType{}
		}
	}
	switch key := tag.Get("patchMergeKey"); {
	case key != "":
		return ListType{Keys: []string{key}}
	case strings.Contains(tag.Get("patchStrategy"), "merge"):
		return ListType{Set: true}
	}
	return ListType{}
}

// jsonField returns a field of a struct by its name in JSON, those of inlined structs included.
func jsonField(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		json, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case json == name && name != "":
			return f, true
		case json == "" && strings.Contains(options, "inline"):
			if inner, ok := jsonField(f.Type, name); ok {
				return inner, true
			}
		}
	}
	return reflect.StructField{}, false
}
