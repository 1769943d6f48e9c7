package change

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestComparisonLeaves covers KR-05-55: paths with digests of what is wanted, and none of secrets.
func TestComparisonLeaves(t *testing.T) {
	old := object{"kind": "X", "spec": object{"a": int64(1), "gone": "x", "same": object{"y": "z"}, "list": []any{"a"},
		"ports": []any{object{"port": int64(80), "to": "a"}}, "token": "one"},
		"status": object{"a": "b"}}
	wanted := object{"kind": "Y", "spec": object{"a": 2.0, "same": object{"y": "z"}, "list": []any{"a", "b"}, "new": object{"x": object{"y": "z"}},
		"ports": []any{object{"port": int64(443)}, object{"port": int64(80), "to": "b"}}, "token": "two",
		"manifest": object{"apiVersion": "v1", "kind": "Secret", "data": object{"k": "v"}}}}
	c := Comparison{Lists: byKey{"ports": {Keys: []string{"port"}}}, Secrets: SecretFieldsOf("spec.token")}
	got := map[string]string{}
	for _, l := range c.Leaves(old, wanted) {
		got[l.Path] = l.Value
	}
	want := map[string]string{
		"spec.a": "", "spec.gone": Removed, "spec.list": "", "spec.new.x.y": "",
		"spec.ports[[443]].port": "", "spec.ports[[80]].to": "", "spec.token": Hidden,
		"spec.manifest.apiVersion": "", "spec.manifest.kind": "", "spec.manifest.data.k": Hidden,
	}
	for path, value := range want {
		if have, ok := got[path]; !ok || (value == Removed || value == Hidden) && have != value {
			t.Errorf("%s: want %q, got %q", path, value, have)
		}
	}
	if len(got) != len(want) {
		t.Errorf("want %d leaves, got %v", len(want), got)
	}
	// The same value has the same digest, whatever decoded it; another has another.
	other := object{"spec": object{"a": int64(2)}}
	if l := c.Leaves(object{}, other); len(l) != 1 || l[0].Value != got["spec.a"] {
		t.Errorf("2 and 2.0 differ: %v", l)
	}
}

// TestPart covers KR-05-56: whatever is kept is as in the old version, all else as in the new
// one; all leaves, and none, are a version.
func TestPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, wanted := object{"spec": anyValue(3).Draw(t, "old")}, object{"spec": anyValue(3).Draw(t, "new")}
		c := Comparison{Unstored: rapid.Bool().Draw(t, "unstored")}
		leaves := c.Leaves(old, wanted)
		keep := map[string]bool{}
		for _, l := range leaves {
			keep[l.Path] = rapid.Bool().Draw(t, l.Path)
		}
		merged := c.Part(old, wanted, func(l Leaf) bool { return keep[l.Path] })
		for _, l := range c.Leaves(old, merged) {
			if keep[l.Path] {
				t.Fatalf("%s is kept, and changes", l.Path)
			}
		}
		all := c.Part(old, wanted, func(Leaf) bool { return true })
		if d := Diff(old, all, c.Unstored); len(d) > 0 {
			t.Fatalf("all is kept, and %v changes", Paths(d))
		}
		none := c.Part(old, wanted, func(Leaf) bool { return false })
		if d := cmp.Diff(wanted, none); d != "" {
			t.Fatalf("nothing is kept: -new +part\n%s", d)
		}
	})
}
