package change

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
)

var keys = rapid.SampledFrom([]string{"a", "b", "c.d", "e/f", "0"})

// value draws a JSON value up to a depth.
func value(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Just[any](""), rapid.Just[any]("x"), rapid.Just[any]("y"),
		rapid.Just[any](true), rapid.Just[any](false),
		rapid.Custom(func(t *rapid.T) any { return rapid.Int64Range(-3, 3).Draw(t, "int") }),
		rapid.Custom(func(t *rapid.T) any { return float64(rapid.Int64Range(-3, 3).Draw(t, "int")) / 2 }),
	}
	if depth == 0 {
		return rapid.OneOf(leaves...)
	}
	return rapid.OneOf(append(leaves,
		rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(value(depth-1), 0, 3).Draw(t, "list") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.MapOfN(keys, value(depth-1), 0, 3).Draw(t, "map") }),
	)...)
}

func content(t *rapid.T, label string) map[string]any {
	return rapid.MapOfN(keys, value(3), 0, 4).Draw(t, label)
}

// same is an independent account of what Diff holds equal, and DiffUnstored:
// JSON by value, where an empty value equals an absent one.
func same(a, b any, nothing func(any) bool) bool {
	x, isMap := a.(map[string]any)
	y, both := b.(map[string]any)
	if isMap && both {
		for _, k := range slices.Concat(sortedKeys(x), sortedKeys(y)) {
			if !same(x[k], y[k], nothing) {
				return false
			}
		}
		return true
	}
	l, isList := a.([]any)
	m, both := b.([]any)
	if isList && both && len(l) == len(m) {
		for i := range l {
			if !same(l[i], m[i], nothing) {
				return false
			}
		}
		return true
	}
	return nothing(a) && nothing(b) || cmp.Equal(float(a), float(b))
}

func float(v any) any {
	if n, ok := v.(int64); ok {
		return float64(n)
	}
	return v
}

func null(v any) bool { return v == nil }

func nothing(v any) bool {
	switch x := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(x) == 0
	case []any:
		return len(x) == 0
	}
	return false
}

func TestDiffProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := content(t, "a"), content(t, "b")
		if rapid.Bool().Draw(t, "near") {
			b = nearby(t, a)
		}
		x, y := runtime.DeepCopyJSON(a), runtime.DeepCopyJSON(b)

		if d := diff(a, a); len(d) > 0 {
			t.Fatalf("diff(a, a) = %v", d)
		}
		if d := diff(a, x); len(d) > 0 {
			t.Fatalf("a differs from its copy: %v", d)
		}
		got := diff(a, b)
		if equal := same(a, b, null); equal != (len(got) == 0) {
			t.Fatalf("equal is %t, but Diff = %v", equal, got)
		}
		unstored := diffUnstored(a, b)
		if equal := same(a, b, nothing); equal != (len(unstored) == 0) {
			t.Fatalf("equal is %t, but DiffUnstored = %v", equal, unstored)
		}
		if !Same(a, b) != (len(unstored) > 0) {
			t.Fatal("Same does not agree with diffUnstored")
		}
		if diff := cmp.Diff(reverse(got), diff(b, a)); diff != "" {
			t.Fatalf("the way back is another:\n%s", diff)
		}
		if diff := cmp.Diff(a, x) + cmp.Diff(b, y); diff != "" {
			t.Fatalf("input modified:\n%s", diff)
		}
	})
}

// nearby is a with one field set to another value.
func nearby(t *rapid.T, a map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(a)
	out[keys.Draw(t, "key")] = value(2).Draw(t, "value")
	return out
}

func reverse(changes []Change) []Change {
	var out []Change
	for _, c := range changes {
		c.Old, c.New = c.New, c.Old
		switch c.Verb {
		case Insert:
			c.Verb = Delete
		case Delete:
			c.Verb = Insert
		}
		out = append(out, c)
	}
	return out
}

// The same state read by another decoder is the same state, and the same
// difference has the same id.
func TestDecodersAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := content(t, "a"), content(t, "b")
		a2, b2 := recoded(t, a), recoded(t, b)
		if d := diff(a, a2); len(d) > 0 {
			t.Fatalf("a decoder's habits are a change: %v", d)
		}
		id := func(c []Change) string { return DigestOf("", "UPDATE", Identity{}, Identity{}, c).ID() }
		if id(diff(a, b)) != id(diff(a2, b2)) {
			t.Fatalf("ids differ by decoder: %v and %v", diff(a, b), diff(a2, b2))
		}
	})
}

func recoded(t *rapid.T, v map[string]any) map[string]any {
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func FuzzDiff(f *testing.F) {
	f.Add(`{"spec":{"a":1}}`, `{"spec":{"a":1.0}}`)
	f.Add(`{"spec":{"l":[1,{"b":null}]}}`, `{"spec":{"l":[1,{}]}}`)
	f.Add(`{"a.b/c":{"":[[]]}}`, `{}`)
	f.Fuzz(func(t *testing.T, x, y string) {
		var a, b map[string]any
		if json.Unmarshal([]byte(x), &a) != nil || json.Unmarshal([]byte(y), &b) != nil {
			return
		}
		if d := diff(a, a); len(d) > 0 {
			t.Errorf("diff(a, a) = %v", d)
		}
		if same(a, b, null) != (len(diff(a, b)) == 0) || same(a, b, nothing) != (len(diffUnstored(a, b)) == 0) {
			t.Errorf("Diff = %v, DiffUnstored = %v", diff(a, b), diffUnstored(a, b))
		}
	})
}

// diff of two desired states.
func diff(old, new map[string]any) []Change { return differ{}.changes(old, new) }

// diffUnstored is diff of states of which one was not stored.
func diffUnstored(old, new map[string]any) []Change { return differ{unstored: true}.changes(old, new) }
