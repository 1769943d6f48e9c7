package onepass

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	kjson "k8s.io/apimachinery/pkg/util/json"
)

// thing is a custom resource of 3.5 KB with its managedFields.
func thing(count int) map[string]any {
	data, owned := map[string]any{}, map[string]any{".": map[string]any{}}
	for i := range 40 {
		data[fmt.Sprintf("field%02d", i)] = strings.Repeat("x", 40)
		owned[fmt.Sprintf("f:field%02d", i)] = map[string]any{}
	}
	return map[string]any{
		"apiVersion": "example.org/v1", "kind": "Thing",
		"metadata": map[string]any{"name": "thing", "generation": 3, "managedFields": []any{map[string]any{
			"manager": "kubectl", "time": "2026-01-01T00:00:00Z", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:data": owned}},
		}}},
		"spec": map[string]any{"count": count, "data": data},
	}
}

// review of two objects.
func review(tb testing.TB, old, new map[string]any) []byte {
	tb.Helper()
	raw, err := json.Marshal(map[string]any{"kind": "AdmissionReview", "request": map[string]any{"object": new, "oldObject": old}})
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

var long = strings.Repeat("x", shareable)

// documents that Review and Object read as the library of Kubernetes does, or refuse as it does.
var documents = []string{
	`{}`, `{"a":null,"b":[],"c":{},"d":[null,true,false,"",{"e":[[1]]}]}`,
	`{"n":[0,-0,1,-1,9223372036854775807,-9223372036854775808,9223372036854775808,1.0,1.5,-2.5e3,1E2,1e-7,0.1]}`,
	`{"object":{"a":[{"b":"` + long + `"},{"c":[1,{"d":"` + long + `"}]}]},"oldObject":{"a":[{"b":"` + long + `"},{"c":[2,{"d":"` + long + `"}]}]}}`,
	`{"oldObject":{"a":"` + long + `"},"object" : {"a":"` + long + `"},"oldObject":   {"a":"` + long + `"}}`,
	`{"object":{"a":"` + long + `"},"oldObject":{"a":"` + long + `"}`, `{"object":{"a":["` + long + `"]},"oldObject":{"a":["` + long + `"],"a":null}}`,
	`{"s":["\u00e9\n\"\\\/","\ud83d\ude00","\ud83d","é","\u0000"]}`, "{\"bad\":\"\xff\"}",
	`{"twice":1,"twice":{"x":2}}`, ` { "space" : [ 1 , 2 ] } `,
	``, `{`, `{"a"}`, `{"a":1,}`, `{"a":1}{}`, `{"a":01}`, `{"a":1e999}`, `{"a":tru}`, `{"a":[1,}`, `{"a":"`, "{\"a\":\"\n\"}", `[1]`, `null`, `"a"`, `{"a":]}`,
}

// same reports how Review, Object and the Kubernetes library read a document.
func same(t *testing.T, raw []byte) {
	t.Helper()
	var want any
	wrong := kjson.Unmarshal(raw, &want)
	object, ok := want.(map[string]any)
	for name, read := range map[string]func([]byte) (map[string]any, error){"Review": Review, "Object": Object} {
		got, err := read(raw)
		switch {
		case (err == nil) != (wrong == nil && ok):
			t.Errorf("%s %q: error %v, want %v", name, raw, err, wrong)
		case err == nil && !reflect.DeepEqual(got, object):
			t.Errorf("%s %q: %#v, want %#v", name, raw, got, object)
		}
	}
}

// TestValues: Review and Object return what the library of Kubernetes does.
func TestValues(t *testing.T) {
	for _, d := range documents {
		same(t, []byte(d))
	}
	same(t, review(t, thing(1), thing(2)))
	var deep [2]string
	for i := range deep {
		const n = 2000
		deep[i] = strings.Repeat(`{"`+long+`":[`, n) + strconv.Itoa(i) + strings.Repeat("]}", n)
	}
	same(t, []byte(`{"object":`+deep[0]+`,"oldObject":`+deep[1]+`}`))
}

// TestShared: parts that are byte for byte the same are the same value, wherever the first difference is.
func TestShared(t *testing.T) {
	was, is := thing(1), thing(1)
	is["metadata"].(map[string]any)["generation"] = 4
	is["metadata"].(map[string]any)["managedFields"].([]any)[0].(map[string]any)["time"] = "2026-01-02T00:00:00Z"
	body := review(t, was, is)
	same(t, body)
	read, err := Review(body)
	if err != nil {
		t.Fatal(err)
	}
	object, oldObject := at(read, "request.object"), at(read, "request.oldObject")
	for path, want := range map[string]bool{
		"": false, "spec": true, "metadata": false, "metadata.managedFields.0": false, "metadata.managedFields.0.fieldsV1": true,
	} {
		if got := reflect.ValueOf(at(object, path)).Pointer() == reflect.ValueOf(at(oldObject, path)).Pointer(); got != want {
			t.Errorf("%q is shared: %t", path, got)
		}
	}
}

// at a path, in which numbers are indexes of items.
func at(v any, path string) any {
	for _, p := range strings.Split(path, ".") {
		switch t := v.(type) {
		case map[string]any:
			if p != "" {
				v = t[p]
			}
		case []any:
			n, _ := strconv.Atoi(p)
			v = t[n]
		}
	}
	return v
}

// FuzzValues: as TestValues, for any bytes.
func FuzzValues(f *testing.F) {
	for _, d := range documents {
		f.Add([]byte(d))
	}
	f.Add(review(f, thing(1), thing(2)))
	f.Fuzz(func(t *testing.T, raw []byte) { same(t, raw) })
}
