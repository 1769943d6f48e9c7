package external

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/admission/change"
)

type object = map[string]any

func mr(forProvider, atProvider any) object {
	out := object{"spec": object{}, "status": object{}}
	if forProvider != nil {
		out["spec"] = object{"forProvider": forProvider}
	}
	if atProvider != nil {
		out["status"] = object{"atProvider": atProvider}
	}
	return out
}

func mutate(path string, have, want any) change.Change {
	return change.Change{Path: path, Verb: change.Mutate, Old: have, New: want}
}

// TestDifference covers KR-08-21.
func TestDifference(t *testing.T) {
	cases := map[string]struct {
		reason     string
		in         object
		want       []change.Change
		comparable bool
	}{
		"Same": {reason: "nothing to do", in: mr(object{"size": "s"}, object{"size": "s"}), comparable: true},
		"Differs": {reason: "from the observed to the desired value", in: mr(object{"size": "l"}, object{"size": "s"}),
			want: []change.Change{mutate("spec.forProvider.size", "s", "l")}, comparable: true},
		"Workspace": {reason: "two sides without a field in common cannot be compared",
			in: mr(object{"module": "m", "env": []any{}}, object{"checksum": "x", "outputs": object{}})},
		"OnlyAsked": {reason: "a field that only one side has is a reference or an input",
			in: mr(object{"size": "s", "passwordRef": "x"}, object{"size": "s"}), comparable: true},
		"OnlyThere": {reason: "or an output", in: mr(object{"size": "s"}, object{"size": "s", "arn": "x"}), comparable: true},
		"Numbers":   {reason: "3 and 3.0", in: mr(object{"n": int64(3)}, object{"n": 3.0}), comparable: true},
		"OtherNumbers": {reason: "3 and 4", in: mr(object{"n": int64(3)}, object{"n": int64(4)}),
			want: []change.Change{mutate("spec.forProvider.n", int64(4), int64(3))}, comparable: true},
		"Quantities": {reason: "in other units", in: mr(object{"mem": "1Gi"}, object{"mem": "1024Mi"}), comparable: true},
		"OtherQuantity": {reason: "another amount", in: mr(object{"mem": "1Gi"}, object{"mem": "1G"}),
			want: []change.Change{mutate("spec.forProvider.mem", "1G", "1Gi")}, comparable: true},
		"JSON": {reason: "a JSON document with other spaces and order",
			in: mr(object{"policy": `{"a": 1, "b": [2]}`}, object{"policy": `{"b":[2],"a":1}`}), comparable: true},
		"OtherJSON": {reason: "another document", in: mr(object{"policy": `{"a":1}`}, object{"policy": `{"a":2}`}),
			want: []change.Change{mutate("spec.forProvider.policy", `{"a":2}`, `{"a":1}`)}, comparable: true},
		"NotJSON": {reason: "a text that looks like one", in: mr(object{"s": "{a"}, object{"s": "{b"}),
			want: []change.Change{mutate("spec.forProvider.s", "{b", "{a")}, comparable: true},
		"Nested": {reason: "as deep as it goes",
			in:   mr(object{"a": object{"b": "1", "c": "x"}}, object{"a": object{"b": "2"}}),
			want: []change.Change{mutate("spec.forProvider.a.b", "2", "1")}, comparable: true},
		"Lists": {reason: "index by index", in: mr(object{"l": []any{"a", "b"}}, object{"l": []any{"a", "c"}}),
			want: []change.Change{mutate("spec.forProvider.l[1]", "c", "b")}, comparable: true},
		"ListLength": {reason: "another length", in: mr(object{"l": []any{"a"}}, object{"l": []any{"a", "c"}}),
			want: []change.Change{mutate("spec.forProvider.l", []any{"a", "c"}, []any{"a"})}, comparable: true},
		"ListOfMaps": {reason: "fields only one side has do not count there either",
			in: mr(object{"l": []any{object{"n": "a"}}}, object{"l": []any{object{"n": "a", "id": "1"}}}), comparable: true},
		"ListByKey": {reason: "elements are identified by their key, in whatever order",
			in: mr(object{"l": []any{object{"name": "a", "v": "1"}, object{"name": "b", "v": "2"}}},
				object{"l": []any{object{"name": "b", "v": "2"}, object{"name": "a", "v": "3"}}}),
			want: []change.Change{mutate("spec.forProvider.l[0].v", "3", "1")}, comparable: true},
		"ListByTagKey": {reason: "key goes before name",
			in: mr(object{"l": []any{object{"key": "a", "name": "x"}, object{"key": "b", "name": "x"}}},
				object{"l": []any{object{"key": "b", "name": "x"}, object{"key": "a", "name": "x"}}}),
			comparable: true},
		"ListSharedKey": {reason: "a key that two share is none",
			in: mr(object{"l": []any{object{"name": "a", "v": "1"}, object{"name": "a", "v": "2"}}},
				object{"l": []any{object{"name": "a", "v": "2"}, object{"name": "a", "v": "1"}}}),
			want: []change.Change{mutate("spec.forProvider.l[0].v", "2", "1"), mutate("spec.forProvider.l[1].v", "1", "2")}, comparable: true},
		"ListOtherKeys": {reason: "another element is a difference",
			in:   mr(object{"l": []any{object{"name": "a"}}}, object{"l": []any{object{"name": "b"}}}),
			want: []change.Change{mutate("spec.forProvider.l[0].name", "b", "a")}, comparable: true},
		"ListOneMore": {reason: "one more is a difference of the list",
			in:         mr(object{"l": []any{object{"name": "a"}}}, object{"l": []any{object{"name": "a"}, object{"name": "b"}}}),
			want:       []change.Change{mutate("spec.forProvider.l", []any{object{"name": "a"}, object{"name": "b"}}, []any{object{"name": "a"}})},
			comparable: true},
		"ScalarOrder": {reason: "the order of plain values counts",
			in:   mr(object{"l": []any{"a", "b"}}, object{"l": []any{"b", "a"}}),
			want: []change.Change{mutate("spec.forProvider.l[0]", "b", "a"), mutate("spec.forProvider.l[1]", "a", "b")}, comparable: true},
		"Types": {reason: "text and number", in: mr(object{"n": "3"}, object{"n": int64(3)}),
			want: []change.Change{mutate("spec.forProvider.n", int64(3), "3")}, comparable: true},
		"Sorted": {reason: "by path", in: mr(object{"b": "1", "a": "1"}, object{"a": "2", "b": "2"}),
			want: []change.Change{mutate("spec.forProvider.a", "2", "1"), mutate("spec.forProvider.b", "2", "1")}, comparable: true},
		"DottedKey": {reason: "tags", in: mr(object{"tags": object{"a.b/c": "1"}}, object{"tags": object{"a.b/c": "2"}}),
			want: []change.Change{mutate("spec.forProvider.tags[a.b/c]", "2", "1")}, comparable: true},
		"Cleared": {reason: "an empty string is a value", in: mr(object{"d": ""}, object{"d": "x"}),
			want: []change.Change{mutate("spec.forProvider.d", "x", "")}, comparable: true},
		"NothingAsked": {reason: "cannot be compared", in: mr(nil, object{"a": "1"})},
		"NothingThere": {reason: "cannot be compared", in: mr(object{"a": "1"}, nil)},
		"NoSpec":       {reason: "cannot be compared", in: object{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := runtime.DeepCopyJSON(tc.in)
			if diff := cmp.Diff(tc.want, Difference(tc.in)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if got := Comparable(tc.in); got != tc.comparable {
				t.Errorf("%s: Comparable = %t", tc.reason, got)
			}
			if diff := cmp.Diff(before, tc.in); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOutside(t *testing.T) {
	diffs := []change.Change{{Path: "spec.forProvider.a.b"}, {Path: "spec.forProvider.c"}, {Path: "spec.forProvider.ab"}}
	cases := map[string]struct {
		reason   string
		accepted []string
		want     []string
	}{
		"None": {reason: "everything is outside",
			want: []string{"spec.forProvider.a.b", "spec.forProvider.c", "spec.forProvider.ab"}},
		"Same": {reason: "the path itself", accepted: []string{"spec.forProvider.c"},
			want: []string{"spec.forProvider.a.b", "spec.forProvider.ab"}},
		"Above": {reason: "a path covers what is below it, and no neighbour", accepted: []string{"spec.forProvider.a"},
			want: []string{"spec.forProvider.c", "spec.forProvider.ab"}},
		"Below": {reason: "a change within a field that differs as a whole", accepted: []string{"spec.forProvider.c[0].x"},
			want: []string{"spec.forProvider.a.b", "spec.forProvider.ab"}},
		"All": {reason: "nothing is outside", accepted: []string{"spec.forProvider"}, want: []string{}},
		"Others": {reason: "unrelated paths", accepted: []string{"spec.providerConfigRef"},
			want: []string{"spec.forProvider.a.b", "spec.forProvider.c", "spec.forProvider.ab"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, change.Paths(Outside(diffs, tc.accepted))); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
