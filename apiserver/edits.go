package apiserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"

	core "github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/webhook/review"
)

// apply the edits of a decision to the object of a request, and remove a condition of its status by its index, -1 for none.
func (r *request) apply(a admission.Attributes, o admission.ObjectInterfaces, d core.Decision, drop int) error {
	ops := review.Patches(r.Request, d)
	if drop >= 0 {
		ops = append(ops, jsonpatch.NewOperation("remove", "/status/conditions/"+strconv.Itoa(drop), nil))
	}
	return r.edit(a, o, ops)
}

// edit the object of a request as a JSON patch does.
func (r *request) edit(a admission.Attributes, o admission.ObjectInterfaces, ops []jsonpatch.Operation) error {
	if len(ops) == 0 {
		return nil
	}
	content := r.Object.Object
	for _, op := range ops {
		if err := apply(content, op); err != nil {
			return fmt.Errorf("cannot edit the object: %w", err)
		}
	}
	if r.typed == nil {
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, r.typed); err != nil {
		return fmt.Errorf("cannot edit the object: %w", err)
	}
	if r.typed == a.GetObject() {
		return nil
	}
	if err := o.GetObjectConvertor().Convert(r.typed, a.GetObject(), nil); err != nil {
		return fmt.Errorf("cannot edit the object: %w", err)
	}
	return nil
}

// unescape what a JSON pointer escapes.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// apply an operation of a JSON patch to the content of an object, without encoding it.
func apply(content map[string]any, op jsonpatch.Operation) error {
	path := strings.Split(strings.TrimPrefix(op.Path, "/"), "/")
	for i := range path {
		path[i] = unescape.Replace(path[i])
	}
	last := path[len(path)-1]
	in, set, err := walk(content, path[:len(path)-1])
	if err != nil {
		return fmt.Errorf("%s: %w", op.Path, err)
	}
	value, err := plain(op.Value)
	if err != nil {
		return fmt.Errorf("%s: %w", op.Path, err)
	}
	switch in := in.(type) {
	case map[string]any:
		if op.Operation == "remove" {
			delete(in, last)
		} else {
			in[last] = value
		}
		return nil
	case []any:
		i, err := strconv.Atoi(last)
		if err != nil || i < 0 || i >= len(in) || op.Operation == "add" {
			return fmt.Errorf("%s: there is no such item", op.Path)
		}
		if op.Operation == "remove" {
			set(slices.Delete(slices.Clone(in), i, i+1))
		} else {
			in[i] = value
		}
		return nil
	}
	return fmt.Errorf("%s: there is no such field", op.Path)
}

// walk to what a path names; set replaces it.
func walk(content map[string]any, path []string) (at any, set func(any), err error) {
	at = content
	for _, key := range path {
		switch in := at.(type) {
		case map[string]any:
			at, set = in[key], func(v any) { in[key] = v }
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(in) {
				return nil, nil, fmt.Errorf("there is no item %s", key)
			}
			at, set = in[i], func(v any) { in[i] = v }
		default:
			return nil, nil, fmt.Errorf("there is no field %s", key)
		}
	}
	return at, set, nil
}

// plain returns a value of an operation as unstructured objects have it.
func plain(v any) (any, error) {
	switch t := v.(type) {
	case nil, string, bool, int64, float64, map[string]any, []any:
		return runtime.DeepCopyJSONValue(t), nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out any
	return out, utiljson.Unmarshal(raw, &out)
}
