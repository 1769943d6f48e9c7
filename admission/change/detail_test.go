package change

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// byKey identifies the items of every list of that name.
type byKey map[string]ListType

func (b byKey) ListType(path []Segment) ListType { return b[path[len(path)-1].Key] }

// TestDetails covers KR-06-07.
func TestDetails(t *testing.T) {
	container := func(name, image string) any { return map[string]any{"name": name, "image": image} }
	lists := byKey{"containers": {Keys: []string{"name"}}, "ports": {Keys: []string{"port", "protocol"}}, "tags": {Set: true}}
	state := func(key string, items ...any) map[string]any {
		return map[string]any{"spec": map[string]any{key: items}}
	}
	for _, tc := range []struct {
		reason   string
		old, new map[string]any
		want     []string
	}{
		{reason: "an item at the front is one insertion", old: state("containers", container("a", "1"), container("b", "1")),
			new: state("containers", container("new", "1"), container("a", "1"), container("b", "1")), want: []string{"Insert spec.containers[0]"}},
		{reason: "a change goes by the new index", old: state("containers", container("a", "1"), container("b", "1")),
			new:  state("containers", container("new", "1"), container("a", "1"), container("b", "2")),
			want: []string{"Insert spec.containers[0]", "Mutate spec.containers[2].image"}},
		{reason: "an item that goes is named by its old index", old: state("containers", container("a", "1"), container("b", "1")),
			new: state("containers", container("b", "1")), want: []string{"Delete spec.containers[0]"}},
		{reason: "another order is no change", old: state("containers", container("a", "1"), container("b", "1")),
			new: state("containers", container("b", "1"), container("a", "1"))},
		{reason: "renamed: one goes, one comes", old: state("containers", container("a", "1")),
			new: state("containers", container("b", "1")), want: []string{"Insert spec.containers[0]", "Delete spec.containers[0]"}},
		{reason: "two keys", old: state("ports", map[string]any{"port": int64(53), "protocol": "TCP"}),
			new:  state("ports", map[string]any{"port": int64(53), "protocol": "UDP"}, map[string]any{"port": int64(53), "protocol": "TCP"}),
			want: []string{"Insert spec.ports[0]"}},
		{reason: "a key that two items share: by index", old: state("containers", container("a", "1"), container("a", "2")),
			new: state("containers", container("a", "1"), container("a", "3")), want: []string{"Mutate spec.containers[1].image"}},
		{reason: "items without the key: by index", old: state("containers", map[string]any{"image": "1"}),
			new: state("containers", map[string]any{"image": "2"}), want: []string{"Mutate spec.containers[0].image"}},
		{reason: "a set", old: state("tags", "a", "b"), new: state("tags", "c", "b"),
			want: []string{"Insert spec.tags[0]", "Delete spec.tags[0]"}},
		{reason: "no keys: by index", old: state("args", "a", "b"), new: state("args", "new", "a", "b"),
			want: []string{"Mutate spec.args[0]", "Mutate spec.args[1]", "Insert spec.args[2]"}},
		{reason: "no keys, shorter", old: state("args", "a", "b"), new: state("args", "a"), want: []string{"Delete spec.args[1]"}},
		{reason: "a field", old: map[string]any{"spec": map[string]any{"a": int64(1)}},
			new: map[string]any{"spec": map[string]any{"a": int64(2), "b": "x"}}, want: []string{"Mutate spec.a", "Insert spec.b"}},
	} {
		var got []string
		for _, d := range Details(tc.old, tc.new, lists, false) {
			got = append(got, fmt.Sprintf("%s %s", d.Verb, d.Path))
			if Text(d.At) != d.Path {
				t.Errorf("%s: %s is at %s", tc.reason, d.Path, Text(d.At))
			}
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s", tc.reason, d)
		}
	}
}

func TestLeaves(t *testing.T) {
	d := detailOf(Insert, nil, map[string]any{"b": []any{"x", map[string]any{}}, "a": int64(1)}, "spec")
	var got []string
	d.Leaves(func(at []Segment) bool { got = append(got, Text(at)); return true })
	if diff := cmp.Diff([]string{"spec.a", "spec.b[0]", "spec.b[1]"}, got); diff != "" {
		t.Error(diff)
	}
	m := detailOf(Mutate, int64(1), map[string]any{"a": int64(1)}, "spec")
	got = nil
	m.Leaves(func(at []Segment) bool { got = append(got, Text(at)); return true })
	if diff := cmp.Diff([]string{"spec"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestDetailsSeeWhatDiffSees: whatever Diff finds, Details finds a change at,
// above or below it, and the other way round.
func TestDetailsSeeWhatDiffSees(t *testing.T) {
	value := rapid.Deferred(func() *rapid.Generator[any] { return anyValue(3) })
	object := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "containers", "tags"}), value, 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		old, new := object.Draw(t, "old"), object.Draw(t, "new")
		details := Details(old, new, nil, false)
		if (len(diff(old, new)) > 0) != (len(details) > 0) {
			t.Fatalf("Diff finds %v, Details %v", diff(old, new), details)
		}
		if len(Details(old, old, byKey{"containers": {Keys: []string{"name"}}, "tags": {Set: true}}, false)) > 0 {
			t.Fatal("a state differs from itself")
		}
	})
}

func anyValue(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(rapid.Map(rapid.IntRange(0, 3), func(i int) any { return int64(i) }),
		rapid.Map(rapid.SampledFrom([]string{"x", "y"}), func(s string) any { return s }))
	if depth == 0 {
		return scalar
	}
	inner := anyValue(depth - 1)
	return rapid.OneOf(scalar,
		rapid.Map(rapid.SliceOfN(inner, 0, 3), func(s []any) any { return s }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"name", "image"}), inner, 0, 2), func(m map[string]any) any { return m }))
}
