package kro

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kausality-io/function-kausality/admission/change"
)

// neverEmpty are fields of Kubernetes' own kinds that the API server does not accept empty.
var neverEmpty = map[string]bool{"image": true, "name": true}

// storesZero reports whether the API server stores a field of a kind that is false, 0 or an empty text. Of Kubernetes' own kinds it drops
// those that their Go type omits, so that setting another value inserts the field.
func storesZero(kind schema.GroupVersionKind, path []change.Segment) bool {
	o, err := scheme.Scheme.New(kind)
	if err != nil {
		return true // a custom resource is stored as it is sent
	}
	t, stored := reflect.TypeOf(o).Elem(), false
	for _, s := range path {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Map, reflect.Slice:
			t, stored = t.Elem(), true
		case reflect.Struct:
			f, omits, found := jsonField(t, s.Key)
			if !found {
				return false
			}
			t, stored = f, !omits || f.Kind() == reflect.Pointer || neverEmpty[s.Key]
		default:
			return false
		}
	}
	return stored
}

// jsonField returns the type of a field by its name in JSON, and whether it is omitted where it is empty.
func jsonField(t reflect.Type, name string) (of reflect.Type, omits, found bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			return f.Type, strings.Contains(options, "omitempty"), true
		}
		if f.Anonymous && tag == "" {
			if of, omits, found := jsonField(f.Type, name); found {
				return of, omits, true
			}
		}
	}
	return nil, false, false
}
