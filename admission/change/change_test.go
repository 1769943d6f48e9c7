package change

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

type object = map[string]any

// TestDesired covers KR-01-01.
func TestDesired(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     object
		want   object
	}{
		"Spec": {reason: "the desired state of most kinds",
			in:   object{"apiVersion": "v1", "kind": "X", "metadata": object{"name": "a"}, "spec": object{"a": "b"}, "status": object{"c": "d"}},
			want: object{"spec": object{"a": "b"}}},
		"ConfigMap": {reason: "its data", in: object{"metadata": object{}, "data": object{"a": "b"}, "binaryData": object{}},
			want: object{"data": object{"a": "b"}, "binaryData": object{}}},
		"Role": {reason: "its rules", in: object{"kind": "Role", "rules": []any{object{"verbs": []any{"get"}}}},
			want: object{"rules": []any{object{"verbs": []any{"get"}}}}},
		"Nothing": {reason: "nil stays nil"},
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
		"Stored":   {paths: []string{"data", "spec.kind", "spec.metadata.name", "spec.status"}},
		"Unstored": {unstored: true, paths: []string{"spec.kind", "spec.metadata.name", "spec.status"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.paths, Paths(Diff(old, new, tc.unstored))); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
	if got := Paths(Diff(nil, new, true)); !cmp.Equal(got, []string{"spec"}) {
		t.Errorf("of an object that was not there: %v", got)
	}
	if got := Diff(old, old, false); got != nil {
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
		"Equal": {reason: "no change", old: spec(object{"a": "b"}), new: spec(object{"a": "b"})},
		"Mutate": {reason: "one field", old: spec(object{"a": "b", "x": "y"}), new: spec(object{"a": "c", "x": "y"}),
			want: []Change{{Path: "spec.a", Verb: Mutate, Old: "b", New: "c"}}},
		"Insert": {reason: "a new field", old: spec(object{}), new: spec(object{"a": "b"}),
			want: []Change{{Path: "spec.a", Verb: Insert, New: "b"}}},
		"Delete": {reason: "a field gone", old: spec(object{"a": "b"}), new: spec(object{}),
			want: []Change{{Path: "spec.a", Verb: Delete, Old: "b"}}},
		"Sorted": {reason: "by path", old: spec(object{"b": "1", "a": "1"}), new: spec(object{"b": "2", "a": "2"}),
			want: []Change{{Path: "spec.a", Verb: Mutate, Old: "1", New: "2"}, {Path: "spec.b", Verb: Mutate, Old: "1", New: "2"}}},
		"Nested": {reason: "as deep as it goes", old: spec(object{"a": object{"b": object{"c": int64(1)}}}),
			new: spec(object{"a": object{"b": object{"c": int64(2)}}}), want: []Change{{Path: "spec.a.b.c", Verb: Mutate, Old: int64(1), New: int64(2)}}},
		"List": {reason: "index by index", old: spec(object{"l": []any{"a", "b"}}), new: spec(object{"l": []any{"a", "c"}}),
			want: []Change{{Path: "spec.l[1]", Verb: Mutate, Old: "b", New: "c"}}},
		"ListOfMaps": {reason: "fields of items", old: spec(object{"l": []any{object{"image": "a"}}}),
			new: spec(object{"l": []any{object{"image": "b"}}}), want: []Change{{Path: "spec.l[0].image", Verb: Mutate, Old: "a", New: "b"}}},
		"ListLength": {reason: "another length is another value", old: spec(object{"l": []any{"a"}}),
			new: spec(object{"l": []any{"a", "b"}}), want: []Change{{Path: "spec.l", Verb: Mutate, Old: []any{"a"}, New: []any{"a", "b"}}}},
		"Bracketed": {reason: "keys that are no plain names are in brackets", old: spec(object{"app.kubernetes.io/name": "a"}),
			new: spec(object{"app.kubernetes.io/name": "b"}), want: []Change{{Path: "spec[app.kubernetes.io/name]", Verb: Mutate, Old: "a", New: "b"}}},
		"IntFloat": {reason: "JSON decoders differ in the Go types of numbers", old: spec(object{"n": int64(3)}),
			new: spec(object{"n": 3.0})},
		"Float": {reason: "a fraction is a change", old: spec(object{"n": int64(3)}), new: spec(object{"n": 3.5}),
			want: []Change{{Path: "spec.n", Verb: Mutate, Old: int64(3), New: 3.5}}},
		"BigIntegers": {reason: "integers beyond the precision of a float differ all the same",
			old: spec(object{"n": int64(9007199254740992)}), new: spec(object{"n": int64(9007199254740993)}),
			want: []Change{{Path: "spec.n", Verb: Mutate, Old: int64(9007199254740992), New: int64(9007199254740993)}}},
		"NullMissing": {reason: "a null is no field", old: spec(object{"a": nil}), new: spec(object{})},
		"EmptyMap": {reason: "an empty selector selects everything, none nothing", old: spec(object{}),
			new: spec(object{"a": object{}}), want: []Change{{Path: "spec.a", Verb: Insert, New: object{}}}},
		"EmptyList": {reason: "nor is an empty list none", old: spec(object{"a": []any{}}), new: spec(object{}),
			want: []Change{{Path: "spec.a", Verb: Delete, Old: []any{}}}},
		"NullEmpty": {reason: "nor a null", old: spec(object{"a": nil}), new: spec(object{"a": []any{}}),
			want: []Change{{Path: "spec.a", Verb: Mutate, New: []any{}}}},
		"EmptyString": {reason: "an empty string is a value", old: spec(object{}), new: spec(object{"a": ""}),
			want: []Change{{Path: "spec.a", Verb: Insert, New: ""}}},
		"False": {reason: "false is a value", old: spec(object{}), new: spec(object{"a": false}),
			want: []Change{{Path: "spec.a", Verb: Insert, New: false}}},
		"TypeChange": {reason: "another type is another value", old: spec(object{"a": "1"}), new: spec(object{"a": int64(1)}),
			want: []Change{{Path: "spec.a", Verb: Mutate, Old: "1", New: int64(1)}}},
		"MapToString": {reason: "another type is another value", old: spec(object{"a": object{"b": "c"}}),
			new: spec(object{"a": "c"}), want: []Change{{Path: "spec.a", Verb: Mutate, Old: object{"b": "c"}, New: "c"}}},
		"NilOld": {reason: "nothing before", new: spec(object{"a": "b"}),
			want: []Change{{Path: "spec", Verb: Insert, New: object{"a": "b"}}}},
		"NilNew": {reason: "nothing after", old: spec(object{"a": "b"}),
			want: []Change{{Path: "spec", Verb: Delete, Old: object{"a": "b"}}}},
		"BothNil": {reason: "nothing at all"},
		"ConfigMapData": {reason: "not only spec", old: object{"data": object{"a": "1"}}, new: object{"data": object{"a": "2"}},
			want: []Change{{Path: "data.a", Verb: Mutate, Old: "1", New: "2"}}},
		"SwappedSibling": {reason: "delete and insert are two changes", old: spec(object{"a": "1"}), new: spec(object{"b": "1"}),
			want: []Change{{Path: "spec.a", Verb: Delete, Old: "1"}, {Path: "spec.b", Verb: Insert, New: "1"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			old, new := runtime.DeepCopyJSON(tc.old), runtime.DeepCopyJSON(tc.new)
			got := diff(tc.old, tc.new)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if got := !Same(tc.old, tc.new); got != (len(diffUnstored(tc.old, tc.new)) > 0) || got && len(tc.want) == 0 {
				t.Errorf("%s: Same = %t", tc.reason, !got)
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
				if got := diffUnstored(pair[0], pair[1]); len(got) > 0 {
					t.Errorf("got %v", got)
				}
				if got := diff(pair[0], pair[1]); len(got) != 1 {
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
		"Root":  {reason: "no dot in front", key: "spec", want: "spec"},
		"Plain": {reason: "a dot between", path: "spec", key: "size", want: "spec.size"},
		"Dotted": {reason: "brackets keep a dotted key one key", path: "metadata.annotations", key: "a.b/c",
			want: "metadata.annotations[a.b/c]"},
		"Star":    {reason: "a star is not a wildcard", path: "spec", key: "*", want: "spec[*]"},
		"Empty":   {reason: "an empty key is a key", path: "spec", want: "spec[]"},
		"Numeral": {reason: "a numeral of a map is no index", path: "data", key: "0", want: "data.0"},
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

// TestIsID: 16 lower-case hex digits and nothing else (KR-10-02).
func TestIsID(t *testing.T) {
	for text, want := range map[string]bool{
		"1f2e3d4c5b6a7980": true, "0000000000000000": true, "abcdefabcdefabcd": true,
		"": false, "1f2e3d4c5b6a798": false, "1f2e3d4c5b6a79801": false, "1f2e3d4c5b6a79801f2e3d4c5b6a7980": false,
		"1F2E3D4C5B6A7980": false, "1f2e3d4c5b6a798g": false, "1f2e3d4c5b6a79 0": false, "1f2e3d4c5b6a798\n": false, "1f2e3d4c;b6a7980": false,
	} {
		if got := IsID(text); got != want {
			t.Errorf("%q: want %t, got %t", text, want, got)
		}
	}
}

// TestID covers KR-10-02.
func TestID(t *testing.T) {
	p, c := Identity{Kind: "X", Name: "p"}, Identity{Kind: "Y", Name: "c"}
	id := func(changes ...Change) string {
		return DigestOf(v1alpha1.RelationControllerChild, "UPDATE", p, c, changes).ID()
	}
	base := id(Change{Path: "spec.a", Verb: Mutate, Old: object{"x": int64(1), "y": int64(2)}, New: int64(3)})
	if !IsID(base) {
		t.Fatalf("want %d hex digits, got %q", IDLength, base)
	}
	var reordered any
	if err := json.Unmarshal([]byte(`{"y":2,"x":1}`), &reordered); err != nil {
		t.Fatal(err)
	}
	if got := id(Change{Path: "spec.a", Verb: Mutate, Old: reordered, New: 3.0}); got != base {
		t.Error("the order of map keys and the type of a number must not count")
	}
	was := object{"x": int64(1), "y": int64(2)}
	other := map[string]string{
		"value":     id(Change{Path: "spec.a", Verb: Mutate, Old: object{"x": int64(1), "y": int64(2)}, New: int64(4)}),
		"old value": id(Change{Path: "spec.a", Verb: Mutate, Old: object{"x": int64(1), "y": int64(3)}, New: int64(3)}),
		"path":      id(Change{Path: "spec.b", Verb: Mutate, Old: object{"x": int64(1), "y": int64(2)}, New: int64(3)}),
		"operation": DigestOf(v1alpha1.RelationControllerChild, "DELETE", p, c, []Change{{Path: "spec.a", Verb: Mutate, Old: was, New: int64(3)}}).ID(),
		"relation":  DigestOf(v1alpha1.RelationExternal, "UPDATE", p, c, []Change{{Path: "spec.a", Verb: Mutate, Old: was, New: int64(3)}}).ID(),
		"parent":    DigestOf(v1alpha1.RelationControllerChild, "UPDATE", c, c, []Change{{Path: "spec.a", Verb: Mutate, Old: was, New: int64(3)}}).ID(),
		"child":     DigestOf(v1alpha1.RelationControllerChild, "UPDATE", p, p, []Change{{Path: "spec.a", Verb: Mutate, Old: was, New: int64(3)}}).ID(),
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
	changes := []Change{
		{Path: "data.a", Verb: Mutate, Old: "old", New: "new"}, {Path: "data.b", Verb: Insert, New: string(long)}, {Path: "data.c", Verb: Delete, Old: int64(1)},
	}
	got := Fields(changes, 3)
	if diff := cmp.Diff(v1alpha1.FieldDifference{Path: "data.a", Verb: "Mutate", Old: `"old"`, New: `"new"`}, got[0]); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if n := len(got[1].New); n > maxValue+len("…") || got[1].Old != "" {
		t.Errorf("a long value is cut, a missing one empty; got %d bytes and %q", n, got[1].Old)
	}
	if raw, err := json.Marshal(got[1].New); err != nil || string(raw) != `"`+jsonInner(got[1].New)+`"` {
		t.Errorf("a cut value must stay valid UTF-8: %s", raw)
	}
	if n := len(Fields(changes, 2)); n != 2 {
		t.Errorf("at most max fields, got %d", n)
	}
	for i := range changes {
		changes[i].Secret = true
	}
	for _, f := range Fields(changes, 3) {
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
