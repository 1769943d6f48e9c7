package lists

import (
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/change"
)

// builtin types by kind: those whose desired state has lists.
var builtin = map[schema.GroupVersionKind]reflect.Type{}

func known[T any](gv schema.GroupVersion) {
	t := reflect.TypeFor[T]()
	builtin[gv.WithKind(t.Name())] = t
}

func init() { //nolint:gochecknoinits // A table of types that Go cannot write as a literal.
	known[appsv1.Deployment](appsv1.SchemeGroupVersion)
	known[appsv1.ReplicaSet](appsv1.SchemeGroupVersion)
	known[appsv1.StatefulSet](appsv1.SchemeGroupVersion)
	known[appsv1.DaemonSet](appsv1.SchemeGroupVersion)
	known[autoscalingv2.HorizontalPodAutoscaler](autoscalingv2.SchemeGroupVersion)
	known[batchv1.Job](batchv1.SchemeGroupVersion)
	known[batchv1.CronJob](batchv1.SchemeGroupVersion)
	known[corev1.Pod](corev1.SchemeGroupVersion)
	known[corev1.PodTemplate](corev1.SchemeGroupVersion)
	known[corev1.ReplicationController](corev1.SchemeGroupVersion)
	known[corev1.Service](corev1.SchemeGroupVersion)
	known[corev1.ServiceAccount](corev1.SchemeGroupVersion)
	known[networkingv1.Ingress](networkingv1.SchemeGroupVersion)
	known[networkingv1.NetworkPolicy](networkingv1.SchemeGroupVersion)
}

// Builtin knows the lists of a kind of Kubernetes' own, by the merge keys that
// strategic merge patches go by; nil for a kind that it does not know.
func Builtin(gvk schema.GroupVersionKind) change.Lists {
	t, ok := builtin[gvk]
	if !ok {
		return nil
	}
	return goType{t}
}

type goType struct{ reflect.Type }

// ListType of the list at a path.
func (g goType) ListType(path []change.Segment) change.ListType {
	t, tag := g.Type, reflect.StructTag("")
	for _, s := range path {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Slice, reflect.Map:
			t, tag = t.Elem(), ""
		case reflect.Struct:
			f, ok := field(t, s.Key)
			if !ok {
				return change.ListType{}
			}
			t, tag = f.Type, f.Tag
		default:
			return change.ListType{}
		}
	}
	switch key := tag.Get("patchMergeKey"); {
	case key != "":
		return change.ListType{Keys: []string{key}}
	case strings.Contains(tag.Get("patchStrategy"), "merge"):
		return change.ListType{Set: true}
	}
	return change.ListType{}
}

// field of a struct by its name in JSON, those of inlined structs included.
func field(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		json, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case json == name && name != "":
			return f, true
		case json == "" && strings.Contains(options, "inline"):
			if inner, ok := field(f.Type, name); ok {
				return inner, true
			}
		}
	}
	return reflect.StructField{}, false
}
