package external

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kausality-io/function-kausality/admission/change"
)

const (
	forProvider = "spec.forProvider"
	// Exists is the path of the difference between an external resource that
	// should exist and one that is gone.
	Exists = "exists"
)

// SyncedMessage is the message of an object's Synced condition where that is not
// True; "" where it is, and where there is none.
func SyncedMessage(content map[string]any) string {
	status, _ := content["status"].(map[string]any)
	list, _ := status["conditions"].([]any) // a status of another shape has none
	for _, e := range list {
		if c, ok := e.(map[string]any); ok && c["type"] == "Synced" && c["status"] != "True" {
			m, _ := c["message"].(string)
			return m
		}
	}
	return ""
}

// Comparable reports whether anything can be compared: both sides have a field
// in common. A Workspace of provider-terraform has none.
func Comparable(content map[string]any) bool {
	want, a := at(content, "spec", "forProvider")
	have, b := at(content, "status", "atProvider")
	if !a || !b {
		return false
	}
	for k := range want {
		if _, ok := have[k]; ok {
			return true
		}
	}
	return false
}

// Difference between the external resource and its desired state: from the
// observed values (Old, atProvider) to those that an approval would lead to (New,
// forProvider). Only fields that both have are compared; a field that only one
// side has is a default, a reference or an output. Sorted by path (KR-08-21).
func Difference(content map[string]any) []change.Change {
	want, ok := at(content, "spec", "forProvider")
	if !ok {
		return nil
	}
	have, ok := at(content, "status", "atProvider")
	if !ok {
		return nil
	}
	var out []change.Change
	compareMap(forProvider, want, have, &out)
	slices.SortFunc(out, func(a, b change.Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// at returns the map at a path; false where there is none, or a value of another type.
func at(content map[string]any, keys ...string) (map[string]any, bool) {
	for _, k := range keys {
		next, ok := content[k].(map[string]any)
		if !ok {
			return nil, false
		}
		content = next
	}
	return content, true
}

func compareMap(path string, want, have map[string]any, out *[]change.Change) {
	for k, w := range want {
		if h, ok := have[k]; ok {
			before := len(*out)
			compare(change.Join(path, k), w, h, out)
			if len(*out) > before && (change.IsSecretField(want, k) || change.IsSecretField(have, k)) {
				for i := range (*out)[before:] {
					(*out)[before+i].Secret = true // an Object of provider-kubernetes has a manifest
				}
			}
		}
	}
}

func compare(path string, want, have any, out *[]change.Change) {
	switch w := want.(type) {
	case map[string]any:
		if h, ok := have.(map[string]any); ok {
			compareMap(path, w, h, out)
			return
		}
	case []any:
		h, ok := have.([]any)
		if ok && compareByKey(path, w, h, out) {
			return
		}
		if ok && len(h) == len(w) {
			for i := range w {
				compare(path+"["+strconv.Itoa(i)+"]", w[i], h[i], out)
			}
			return
		}
	}
	if !same(want, have) {
		*out = append(*out, change.Change{Path: path, Verb: change.Mutate, Old: have, New: want})
	}
}

// listKeys by which elements of lists are identified, best first.
var listKeys = []string{"key", "name", "id"}

// compareByKey compares lists whose elements have a key: their order is
// ignored then. It returns false where they have none, or not the same elements.
func compareByKey(path string, want, have []any, out *[]change.Change) bool {
	for _, k := range listKeys {
		w, h := byKey(want, k), byKey(have, k)
		if w == nil || h == nil || len(w) != len(h) {
			continue
		}
		for key := range w {
			if _, ok := h[key]; !ok {
				return false
			}
		}
		for i, e := range want {
			compare(path+"["+strconv.Itoa(i)+"]", e, h[e.(map[string]any)[k].(string)], out)
		}
		return true
	}
	return false
}

// byKey are the elements of a list by their key, nil where one has none or
// shares it.
func byKey(list []any, key string) map[string]any {
	out := map[string]any{}
	for _, e := range list {
		m, _ := e.(map[string]any)
		name, ok := m[key].(string)
		if _, taken := out[name]; !ok || taken {
			return nil
		}
		out[name] = e
	}
	return out
}

// same value, in whatever form it is written: 3 and 3.0, "1Gi" and "1024Mi", a
// JSON document and the same one with other spaces.
func same(a, b any) bool {
	if change.Same(a, b) {
		return true
	}
	x, isText := a.(string)
	y, both := b.(string)
	return isText && both && (sameQuantity(x, y) || sameJSON(x, y))
}

// sameQuantity of Kubernetes, as "1Gi" and "1024Mi": providers report their own unit.
func sameQuantity(a, b string) bool {
	x, err := resource.ParseQuantity(a)
	if err != nil {
		return false
	}
	y, err := resource.ParseQuantity(b)
	return err == nil && x.Cmp(y) == 0
}

// sameJSON of two documents within strings, as IAM policies are: a provider reports them
// with other white space and order of keys.
func sameJSON(a, b string) bool {
	if !strings.HasPrefix(strings.TrimSpace(a), "{") && !strings.HasPrefix(strings.TrimSpace(a), "[") {
		return false
	}
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// Outside returns the differences that lie outside of the accepted paths.
func Outside(differences []change.Change, accepted []string) []change.Change {
	var out []change.Change
	for _, d := range differences {
		if !slices.ContainsFunc(accepted, func(p string) bool { return change.Under(d.Path, p) || change.Under(p, d.Path) }) {
			out = append(out, d)
		}
	}
	return out
}

// Gone reports whether the message of a Synced condition is that the external
// resource does not exist, as crossplane-runtime words it for a closed gate
// (v2.3, errExternalResourceNotExist).
func Gone(message string) bool { return strings.Contains(message, "external resource does not exist") }
