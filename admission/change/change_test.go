package change

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

type object = map[string]any

func TestDesired(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     object
		want   object
	}{
		"Spec":      {"the desired state of most kinds", object{"apiVersion": "v1", "kind": "X", "metadata": object{"name": "a"}, "spec": object{"a": "b"}, "status": object{"c": "d"}}, object{"spec": object{"a": "b"}}},
		"ConfigMap": {"its data", object{"metadata": object{}, "data": object{"a": "b"}, "binaryData": object{}}, object{"data": object{"a": "b"}, "binaryData": object{}}},
		"Role":      {"its rules", object{"kind": "Role", "rules": []any{object{"verbs": []any{"get"}}}}, object{"rules": []any{object{"verbs": []any{"get"}}}}},
		"Nothing":   {"nil stays nil", nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := runtime.DeepCopyJSON(tc.in)
			if diff := cmp.Diff(tc.want, Desired(tc.in)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(before, tc.in); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
		})
	}
}

// Of whole objects the desired state counts, and what is named like its outside
// counts within it.
func TestDiffObjects(t *testing.T) {
	old := object{"apiVersion": "v1", "kind": "X", "metadata": object{"name": "a"}, "status": object{"c": "d"},
		"spec": object{"status": "a", "kind": "a", "metadata": object{"name": "a"}}}
	new := object{"apiVersion": "v2", "kind": "Y", "metadata": object{"name": "b"}, "data": object{},
		"spec": object{"status": "b", "kind": "b", "metadata": object{"name": "b"}}}
	for name, tc := range map[string]struct {
		unstored bool
		paths    []string
	}{
		"Stored":   {false, []string{"data", "spec.kind", "spec.metadata.name", "spec.status"}},
		"Unstored": {true, []string{"spec.kind", "spec.metadata.name", "spec.status"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.paths, Paths(DiffObjects(old, new, tc.unstored))); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
	if got := Paths(DiffObjects(nil, new, true)); !cmp.Equal(got, []string{"spec"}) {
		t.Errorf("of an object that was not there: %v", got)
	}
	if got := DiffObjects(old, old, false); got != nil {
		t.Errorf("of an object and itself: %v", got)
	}
}

func TestDiff(t *testing.T) {
	spec := func(v any) object { return object{"spec": v} }
	cases := map[string]struct {
		reason   string
		old, new object
		want     []Change
	}{
		"Equal":          {"no change", spec(object{"a": "b"}), spec(object{"a": "b"}), nil},
		"Mutate":         {"one field", spec(object{"a": "b", "x": "y"}), spec(object{"a": "c", "x": "y"}), []Change{{"spec.a", Mutate, "b", "c"}}},
		"Insert":         {"a new field", spec(object{}), spec(object{"a": "b"}), []Change{{"spec.a", Insert, nil, "b"}}},
		"Delete":         {"a field gone", spec(object{"a": "b"}), spec(object{}), []Change{{"spec.a", Delete, "b", nil}}},
		"Sorted":         {"by path", spec(object{"b": "1", "a": "1"}), spec(object{"b": "2", "a": "2"}), []Change{{"spec.a", Mutate, "1", "2"}, {"spec.b", Mutate, "1", "2"}}},
		"Nested":         {"as deep as it goes", spec(object{"a": object{"b": object{"c": int64(1)}}}), spec(object{"a": object{"b": object{"c": int64(2)}}}), []Change{{"spec.a.b.c", Mutate, int64(1), int64(2)}}},
		"List":           {"index by index", spec(object{"l": []any{"a", "b"}}), spec(object{"l": []any{"a", "c"}}), []Change{{"spec.l[1]", Mutate, "b", "c"}}},
		"ListOfMaps":     {"fields of items", spec(object{"l": []any{object{"image": "a"}}}), spec(object{"l": []any{object{"image": "b"}}}), []Change{{"spec.l[0].image", Mutate, "a", "b"}}},
		"ListLength":     {"another length is another value", spec(object{"l": []any{"a"}}), spec(object{"l": []any{"a", "b"}}), []Change{{"spec.l", Mutate, []any{"a"}, []any{"a", "b"}}}},
		"Bracketed":      {"keys that are no plain names are in brackets", spec(object{"app.kubernetes.io/name": "a"}), spec(object{"app.kubernetes.io/name": "b"}), []Change{{"spec[app.kubernetes.io/name]", Mutate, "a", "b"}}},
		"IntFloat":       {"JSON decoders differ in the Go types of numbers", spec(object{"n": int64(3)}), spec(object{"n": 3.0}), nil},
		"Float":          {"a fraction is a change", spec(object{"n": int64(3)}), spec(object{"n": 3.5}), []Change{{"spec.n", Mutate, int64(3), 3.5}}},
		"BigIntegers":    {"integers beyond the precision of a float differ all the same", spec(object{"n": int64(9007199254740992)}), spec(object{"n": int64(9007199254740993)}), []Change{{"spec.n", Mutate, int64(9007199254740992), int64(9007199254740993)}}},
		"NullMissing":    {"a null is no field", spec(object{"a": nil}), spec(object{}), nil},
		"EmptyMap":       {"an empty selector selects everything, none nothing", spec(object{}), spec(object{"a": object{}}), []Change{{"spec.a", Insert, nil, object{}}}},
		"EmptyList":      {"nor is an empty list none", spec(object{"a": []any{}}), spec(object{}), []Change{{"spec.a", Delete, []any{}, nil}}},
		"NullEmpty":      {"nor a null", spec(object{"a": nil}), spec(object{"a": []any{}}), []Change{{"spec.a", Mutate, nil, []any{}}}},
		"EmptyString":    {"an empty string is a value", spec(object{}), spec(object{"a": ""}), []Change{{"spec.a", Insert, nil, ""}}},
		"False":          {"false is a value", spec(object{}), spec(object{"a": false}), []Change{{"spec.a", Insert, nil, false}}},
		"TypeChange":     {"another type is another value", spec(object{"a": "1"}), spec(object{"a": int64(1)}), []Change{{"spec.a", Mutate, "1", int64(1)}}},
		"MapToString":    {"another type is another value", spec(object{"a": object{"b": "c"}}), spec(object{"a": "c"}), []Change{{"spec.a", Mutate, object{"b": "c"}, "c"}}},
		"NilOld":         {"nothing before", nil, spec(object{"a": "b"}), []Change{{"spec", Insert, nil, object{"a": "b"}}}},
		"NilNew":         {"nothing after", spec(object{"a": "b"}), nil, []Change{{"spec", Delete, object{"a": "b"}, nil}}},
		"BothNil":        {"nothing at all", nil, nil, nil},
		"ConfigMapData":  {"not only spec", object{"data": object{"a": "1"}}, object{"data": object{"a": "2"}}, []Change{{"data.a", Mutate, "1", "2"}}},
		"SwappedSibling": {"delete and insert are two changes", spec(object{"a": "1"}), spec(object{"b": "1"}), []Change{{"spec.a", Delete, "1", nil}, {"spec.b", Insert, nil, "1"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			old, new := runtime.DeepCopyJSON(tc.old), runtime.DeepCopyJSON(tc.new)
			got := Diff(tc.old, tc.new)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if got := ChangedUnstored(tc.old, tc.new); got != (len(DiffUnstored(tc.old, tc.new)) > 0) || got && len(tc.want) == 0 {
				t.Errorf("%s: ChangedUnstored = %t", tc.reason, got)
			}
			if diff := cmp.Diff(old, tc.old) + cmp.Diff(new, tc.new); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
		})
	}
}

// What never went through the API server may have empty values that it drops.
func TestDiffUnstored(t *testing.T) {
	for name, values := range map[string][2]any{
		"EmptyMap": {nil, object{}}, "EmptyList": {nil, []any{}}, "Both": {object{}, []any{}}, "Nested": {object{}, object{"b": object{}}},
	} {
		t.Run(name, func(t *testing.T) {
			old, new := object{"spec": object{"a": values[0]}}, object{"spec": object{"a": values[1]}}
			if values[0] == nil {
				old = object{"spec": object{}}
			}
			for _, pair := range [][2]object{{old, new}, {new, old}} {
				if got := DiffUnstored(pair[0], pair[1]); len(got) > 0 {
					t.Errorf("got %v", got)
				}
				if got := Diff(pair[0], pair[1]); len(got) != 1 {
					t.Errorf("stored, it is one change, got %v", got)
				}
			}
		})
	}
}

func TestJoinUnder(t *testing.T) {
	cases := map[string]struct {
		reason    string
		path, key string
		want      string
	}{
		"Root":    {"no dot in front", "", "spec", "spec"},
		"Plain":   {"a dot between", "spec", "size", "spec.size"},
		"Dotted":  {"brackets keep a dotted key one key", "metadata.annotations", "a.b/c", "metadata.annotations[a.b/c]"},
		"Star":    {"a star is not a wildcard", "spec", "*", "spec[*]"},
		"Empty":   {"an empty key is a key", "spec", "", "spec[]"},
		"Numeral": {"a numeral of a map is no index", "data", "0", "data.0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Join(tc.path, tc.key)
			if got != tc.want {
				t.Errorf("%s: want %s, got %s", tc.reason, tc.want, got)
			}
			if tc.path != "" && !Under(got, tc.path) {
				t.Errorf("%s: %s is not under %s", tc.reason, got, tc.path)
			}
		})
	}
	for path, want := range map[string]bool{"spec.a": true, "spec.a.b": true, "spec.a[0]": true, "spec.ab": false, "spec": false, "spec.b": false} {
		if got := Under(path, "spec.a"); got != want {
			t.Errorf("Under(%s, spec.a) = %t, want %t", path, got, want)
		}
	}
}

func TestSummary(t *testing.T) {
	changes := []Change{{Path: "a"}, {Path: "b"}, {Path: "c"}}
	for max, want := range map[int]string{5: "a, b, c", 3: "a, b, c", 2: "a, b and 1 more"} {
		if got := Summary(changes, max); got != want {
			t.Errorf("Summary(%d) = %q, want %q", max, got, want)
		}
	}
	if len(changes) != 3 || changes[2].Path != "c" {
		t.Error("input modified")
	}
}

func TestID(t *testing.T) {
	p, c := Identity{Kind: "X", Name: "p"}, Identity{Kind: "Y", Name: "c"}
	id := func(changes ...Change) string { return ID(v1alpha1.RelationControllerChild, "UPDATE", p, c, changes) }
	base := id(Change{"spec.a", Mutate, object{"x": int64(1), "y": int64(2)}, int64(3)})
	if len(base) != IDLength {
		t.Fatalf("want %d hex digits, got %q", IDLength, base)
	}
	var reordered any
	if err := json.Unmarshal([]byte(`{"y":2,"x":1}`), &reordered); err != nil {
		t.Fatal(err)
	}
	if got := id(Change{"spec.a", Mutate, reordered, 3.0}); got != base {
		t.Error("the order of map keys and the type of a number must not count")
	}
	other := map[string]string{
		"value":     id(Change{"spec.a", Mutate, object{"x": int64(1), "y": int64(2)}, int64(4)}),
		"old value": id(Change{"spec.a", Mutate, object{"x": int64(1), "y": int64(3)}, int64(3)}),
		"path":      id(Change{"spec.b", Mutate, object{"x": int64(1), "y": int64(2)}, int64(3)}),
		"operation": ID(v1alpha1.RelationControllerChild, "DELETE", p, c, []Change{{"spec.a", Mutate, object{"x": int64(1), "y": int64(2)}, int64(3)}}),
		"relation":  ID(v1alpha1.RelationExternal, "UPDATE", p, c, []Change{{"spec.a", Mutate, object{"x": int64(1), "y": int64(2)}, int64(3)}}),
		"parent":    ID(v1alpha1.RelationControllerChild, "UPDATE", c, c, []Change{{"spec.a", Mutate, object{"x": int64(1), "y": int64(2)}, int64(3)}}),
		"child":     ID(v1alpha1.RelationControllerChild, "UPDATE", p, p, []Change{{"spec.a", Mutate, object{"x": int64(1), "y": int64(2)}, int64(3)}}),
	}
	for what, got := range other {
		if got == base {
			t.Errorf("another %s must be another difference", what)
		}
	}
}

func TestFields(t *testing.T) {
	long := make([]byte, 0, 300)
	for range 150 {
		long = append(long, "ä"...)
	}
	changes := []Change{{"data.a", Mutate, "old", "new"}, {"data.b", Insert, nil, string(long)}, {"data.c", Delete, int64(1), nil}}
	got := Fields(changes, 3, false)
	if diff := cmp.Diff(v1alpha1.FieldDifference{Path: "data.a", Verb: "Mutate", Old: `"old"`, New: `"new"`}, got[0]); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if n := len(got[1].New); n > maxValue+len("…") || got[1].Old != "" {
		t.Errorf("a long value is cut, a missing one empty; got %d bytes and %q", n, got[1].Old)
	}
	if raw, err := json.Marshal(got[1].New); err != nil || string(raw) != `"`+jsonInner(got[1].New)+`"` {
		t.Errorf("a cut value must stay valid UTF-8: %s", raw)
	}
	if n := len(Fields(changes, 2, false)); n != 2 {
		t.Errorf("at most max fields, got %d", n)
	}
	for _, f := range Fields(changes, 3, true) {
		for _, v := range []string{f.Old, f.New} {
			if v != "" && v != redacted {
				t.Errorf("a Secret's value leaks: %s", v)
			}
		}
	}
}

// jsonInner escapes the one character of the sample that JSON escapes.
func jsonInner(s string) string {
	out := ""
	for _, r := range s {
		if r == '"' {
			out += `\"`
			continue
		}
		out += string(r)
	}
	return out
}

func TestMerge(t *testing.T) {
	cases := map[string]struct {
		reason              string
		base, overlay, want object
	}{
		"Maps":    {"maps are merged", object{"a": object{"x": "1", "y": "2"}}, object{"a": object{"y": "3"}}, object{"a": object{"x": "1", "y": "3"}}},
		"Lists":   {"lists are replaced", object{"a": []any{"1", "2"}}, object{"a": []any{"3"}}, object{"a": []any{"3"}}},
		"Types":   {"another type replaces", object{"a": object{"x": "1"}}, object{"a": "3"}, object{"a": "3"}},
		"NilBase": {"nothing below", nil, object{"a": "b"}, object{"a": "b"}},
		"Nothing": {"nothing above", object{"a": "b"}, nil, object{"a": "b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			base, overlay := runtime.DeepCopyJSON(tc.base), runtime.DeepCopyJSON(tc.overlay)
			if diff := cmp.Diff(tc.want, Merge(tc.base, tc.overlay)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(base, tc.base) + cmp.Diff(overlay, tc.overlay); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
		})
	}
}
