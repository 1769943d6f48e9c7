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

func TestDifference(t *testing.T) {
	cases := map[string]struct {
		reason     string
		in         object
		want       []change.Change
		comparable bool
	}{
		"Same":          {"nothing to do", mr(object{"size": "s"}, object{"size": "s"}), nil, true},
		"Differs":       {"from the observed to the desired value", mr(object{"size": "l"}, object{"size": "s"}), []change.Change{mutate("spec.forProvider.size", "s", "l")}, true},
		"Workspace":     {"two sides without a field in common cannot be compared", mr(object{"module": "m", "env": []any{}}, object{"checksum": "x", "outputs": object{}}), nil, false},
		"OnlyAsked":     {"a field that only one side has is a reference or an input", mr(object{"size": "s", "passwordRef": "x"}, object{"size": "s"}), nil, true},
		"OnlyThere":     {"or an output", mr(object{"size": "s"}, object{"size": "s", "arn": "x"}), nil, true},
		"Numbers":       {"3 and 3.0", mr(object{"n": int64(3)}, object{"n": 3.0}), nil, true},
		"OtherNumbers":  {"3 and 4", mr(object{"n": int64(3)}, object{"n": int64(4)}), []change.Change{mutate("spec.forProvider.n", int64(4), int64(3))}, true},
		"Quantities":    {"in other units", mr(object{"mem": "1Gi"}, object{"mem": "1024Mi"}), nil, true},
		"OtherQuantity": {"another amount", mr(object{"mem": "1Gi"}, object{"mem": "1G"}), []change.Change{mutate("spec.forProvider.mem", "1G", "1Gi")}, true},
		"JSON":          {"a JSON document with other spaces and order", mr(object{"policy": `{"a": 1, "b": [2]}`}, object{"policy": `{"b":[2],"a":1}`}), nil, true},
		"OtherJSON":     {"another document", mr(object{"policy": `{"a":1}`}, object{"policy": `{"a":2}`}), []change.Change{mutate("spec.forProvider.policy", `{"a":2}`, `{"a":1}`)}, true},
		"NotJSON":       {"a text that looks like one", mr(object{"s": "{a"}, object{"s": "{b"}), []change.Change{mutate("spec.forProvider.s", "{b", "{a")}, true},
		"Nested":        {"as deep as it goes", mr(object{"a": object{"b": "1", "c": "x"}}, object{"a": object{"b": "2"}}), []change.Change{mutate("spec.forProvider.a.b", "2", "1")}, true},
		"Lists":         {"index by index", mr(object{"l": []any{"a", "b"}}, object{"l": []any{"a", "c"}}), []change.Change{mutate("spec.forProvider.l[1]", "c", "b")}, true},
		"ListLength":    {"another length", mr(object{"l": []any{"a"}}, object{"l": []any{"a", "c"}}), []change.Change{mutate("spec.forProvider.l", []any{"a", "c"}, []any{"a"})}, true},
		"ListOfMaps":    {"fields only one side has do not count there either", mr(object{"l": []any{object{"n": "a"}}}, object{"l": []any{object{"n": "a", "id": "1"}}}), nil, true},
		"ListByKey":     {"elements are identified by their key, in whatever order", mr(object{"l": []any{object{"name": "a", "v": "1"}, object{"name": "b", "v": "2"}}}, object{"l": []any{object{"name": "b", "v": "2"}, object{"name": "a", "v": "3"}}}), []change.Change{mutate("spec.forProvider.l[0].v", "3", "1")}, true},
		"ListByTagKey":  {"key goes before name", mr(object{"l": []any{object{"key": "a", "name": "x"}, object{"key": "b", "name": "x"}}}, object{"l": []any{object{"key": "b", "name": "x"}, object{"key": "a", "name": "x"}}}), nil, true},
		"ListSharedKey": {"a key that two share is none", mr(object{"l": []any{object{"name": "a", "v": "1"}, object{"name": "a", "v": "2"}}}, object{"l": []any{object{"name": "a", "v": "2"}, object{"name": "a", "v": "1"}}}), []change.Change{mutate("spec.forProvider.l[0].v", "2", "1"), mutate("spec.forProvider.l[1].v", "1", "2")}, true},
		"ListOtherKeys": {"another element is a difference", mr(object{"l": []any{object{"name": "a"}}}, object{"l": []any{object{"name": "b"}}}), []change.Change{mutate("spec.forProvider.l[0].name", "b", "a")}, true},
		"ListOneMore":   {"one more is a difference of the list", mr(object{"l": []any{object{"name": "a"}}}, object{"l": []any{object{"name": "a"}, object{"name": "b"}}}), []change.Change{mutate("spec.forProvider.l", []any{object{"name": "a"}, object{"name": "b"}}, []any{object{"name": "a"}})}, true},
		"ScalarOrder":   {"the order of plain values counts", mr(object{"l": []any{"a", "b"}}, object{"l": []any{"b", "a"}}), []change.Change{mutate("spec.forProvider.l[0]", "b", "a"), mutate("spec.forProvider.l[1]", "a", "b")}, true},
		"Types":         {"text and number", mr(object{"n": "3"}, object{"n": int64(3)}), []change.Change{mutate("spec.forProvider.n", int64(3), "3")}, true},
		"Sorted":        {"by path", mr(object{"b": "1", "a": "1"}, object{"a": "2", "b": "2"}), []change.Change{mutate("spec.forProvider.a", "2", "1"), mutate("spec.forProvider.b", "2", "1")}, true},
		"DottedKey":     {"tags", mr(object{"tags": object{"a.b/c": "1"}}, object{"tags": object{"a.b/c": "2"}}), []change.Change{mutate("spec.forProvider.tags[a.b/c]", "2", "1")}, true},
		"Cleared":       {"an empty string is a value", mr(object{"d": ""}, object{"d": "x"}), []change.Change{mutate("spec.forProvider.d", "x", "")}, true},
		"NothingAsked":  {"cannot be compared", mr(nil, object{"a": "1"}), nil, false},
		"NothingThere":  {"cannot be compared", mr(object{"a": "1"}, nil), nil, false},
		"NoSpec":        {"cannot be compared", object{}, nil, false},
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
		"None":   {"everything is outside", nil, []string{"spec.forProvider.a.b", "spec.forProvider.c", "spec.forProvider.ab"}},
		"Same":   {"the path itself", []string{"spec.forProvider.c"}, []string{"spec.forProvider.a.b", "spec.forProvider.ab"}},
		"Above":  {"a path covers what is below it, and no neighbour", []string{"spec.forProvider.a"}, []string{"spec.forProvider.c", "spec.forProvider.ab"}},
		"Below":  {"a change within a field that differs as a whole", []string{"spec.forProvider.c[0].x"}, []string{"spec.forProvider.a.b", "spec.forProvider.ab"}},
		"All":    {"nothing is outside", []string{"spec.forProvider"}, []string{}},
		"Others": {"unrelated paths", []string{"spec.providerConfigRef"}, []string{"spec.forProvider.a.b", "spec.forProvider.c", "spec.forProvider.ab"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, change.Paths(Outside(diffs, tc.accepted))); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
