package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const kindCRD = "CustomResourceDefinition"

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// Decode reads a stream of YAML or JSON documents. Empty documents are left out, lists are taken
// apart, and everything else must have apiVersion, kind and a name.
func Decode(manifests []byte) ([]*unstructured.Unstructured, error) {
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)

	var objs []*unstructured.Unstructured

	for n := 1; ; n++ {
		u := &unstructured.Unstructured{}

		err := dec.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return objs, nil
		}

		if err == nil && len(u.Object) > 0 {
			objs, err = appendObject(objs, u)
		}

		if err != nil {
			return nil, fmt.Errorf("cannot read document %d: %w", n, err)
		}
	}
}

// appendObject adds u, or what it is a list of.
func appendObject(objs []*unstructured.Unstructured, u *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if u.IsList() {
		err := u.EachListItem(func(o runtime.Object) (err error) {
			item, ok := o.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("a list holds a %T", o)
			}

			objs, err = appendObject(objs, item)

			return err
		})

		return objs, err
	}

	if u.GetAPIVersion() == "" || u.GetKind() == "" || u.GetName() == "" {
		return nil, fmt.Errorf("apiVersion %q, kind %q, name %q: none may be empty", u.GetAPIVersion(), u.GetKind(), u.GetName())
	}

	return append(objs, u), nil
}

// split separates CustomResourceDefinitions from the rest, keeping the order.
func split(objs []*unstructured.Unstructured) (crds, rest []*unstructured.Unstructured) {
	for _, o := range objs {
		if o.GetKind() == kindCRD && o.GroupVersionKind().Group == crdResource.Group {
			crds = append(crds, o)
		} else {
			rest = append(rest, o)
		}
	}

	return crds, rest
}

// ConditionTrue returns nil if the object has a status condition of that type that is True, and
// else an error that holds what the condition reports. It ignores observedGeneration.
func ConditionTrue(o *unstructured.Unstructured, kind string) error {
	conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		return fmt.Errorf("cannot read the conditions of %s %s: %w", o.GetKind(), nameIn(o), err)
	}

	for _, c := range conditions {
		m, ok := c.(map[string]any)
		if !ok || m["type"] != kind {
			continue
		}

		if m["status"] == "True" {
			return nil
		}

		return fmt.Errorf("%s %s: condition %s is %v: %v: %v", o.GetKind(), nameIn(o), kind, m["status"], m["reason"], m["message"])
	}

	return fmt.Errorf("%s %s has no condition %s", o.GetKind(), nameIn(o), kind)
}

// nameIn returns namespace/name, or the name.
func nameIn(o *unstructured.Unstructured) string {
	if ns := o.GetNamespace(); ns != "" {
		return ns + "/" + o.GetName()
	}

	return o.GetName()
}
