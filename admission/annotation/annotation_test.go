package annotation

import (
	"maps"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
)

// aliases is a YAML list of one text of the given size and n aliases of it.
func aliases(size, n int) string {
	return "- reason: &a \"" + strings.Repeat("x", size) + "\"\n" + strings.Repeat("- reason: *a\n", n)
}

// TestUnmarshal covers KR-13-06.
func TestUnmarshal(t *testing.T) {
	cases := map[string]struct {
		reason string
		value  string
		want   []map[string]any
		err    string
	}{
		"JSON":   {reason: "what programs write", value: `[{"reason":"x"}]`, want: []map[string]any{{"reason": "x"}}},
		"YAML":   {reason: "what users write", value: "- reason: x\n- reason: z", want: []map[string]any{{"reason": "x"}, {"reason": "z"}}},
		"Quoted": {reason: "the characters of aliases are allowed in texts", value: `[{"kind":"*","a":"R&D"}]`, want: []map[string]any{{"kind": "*", "a": "R&D"}}},
		"QuotedYAML": {reason: "in texts of YAML, too", value: "- kind: '*'\n  a: R&D",
			want: []map[string]any{{"kind": "*", "a": "R&D"}}},
		"Largest": {reason: "up to the limit", value: `[{"r":"` + strings.Repeat("x", MaxUser-10) + `"}]`,
			want: []map[string]any{{"r": strings.Repeat("x", MaxUser-10)}}},
		"TooLarge": {reason: "beyond the limit", value: strings.Repeat(" ", MaxUser+1), err: "16385 bytes are too large: at most 16384 are read"},
		"Alias":    {reason: "an alias repeats a text in memory", value: aliases(10, 1), err: "anchors and aliases"},
		"Anchor":   {reason: "an anchor without alias is as little of use", value: "- reason: &a x", err: "anchors and aliases"},
		"Merge":    {reason: "a merge key is an alias", value: "- &a {k: v}\n- <<: *a", err: "anchors and aliases"},
		"DeepJSON": {reason: "nesting costs stack", value: `[{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + "}]", err: "nested deeper than 64"},
		"DeepYAML": {reason: "one line of YAML nests as well", value: "- a: \n    " + strings.Repeat("- ", 70) + "x", err: "nested deeper than 64"},
		"BracketsInText": {reason: "brackets in a text nest nothing", value: `[{"a":"` + strings.Repeat("[", 70) + `"}]`,
			want: []map[string]any{{"a": strings.Repeat("[", 70)}}},
		"DeepBehindText": {reason: "brackets in a text close nothing", err: "nested deeper than 64",
			value: `[{"a":"` + strings.Repeat("]", 200) + `\\\"","b":` + strings.Repeat("[", 150) + strings.Repeat("]", 150) + "}]"},
		"NotYAML": {reason: "the error is one line", value: "[{", err: "did not find expected"},
		"Scalar":  {reason: "another type", value: "x", err: "cannot unmarshal string"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []map[string]any
			err := Unmarshal(tc.value, MaxUser, &got)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("%s: want error %q, got %v", tc.reason, tc.err, err)
			}
			if err != nil && (len(err.Error()) > maxEcho+len("…") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%s: the error is long or has lines: %q", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" && err == nil {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// A part of what failed as JSON is not left in the value that YAML is read into.
func TestUnmarshalAfterFailure(t *testing.T) {
	var got []struct{ Name, Kind string }
	if err := Unmarshal("[{name: 7, kind: x}]", MaxUser, &got); err != nil || len(got) != 1 || got[0].Name != "7" {
		t.Fatalf("want a number read as a name, as YAML of Kubernetes does, got %+v, %v", got, err)
	}
	got = nil
	if err := Unmarshal(`[{"name":"a","kind":"b"},{"name":8}]`, MaxUser, &got); err != nil || len(got) != 2 || got[1].Kind != "" {
		t.Fatalf("want two entries, the second without a kind, got %+v, %v", got, err)
	}
}

// The memory of a value that cannot be read is in proportion to its size.
func TestMemory(t *testing.T) {
	for name, value := range map[string]string{
		"Aliases": aliases(8<<10, 600),
		"Flow":    strings.Repeat("[", MaxUser),
		"Block":   strings.Repeat("- ", MaxUser/2),
		"Keys":    strings.Repeat("? ", MaxUser/2),
		"Braces":  strings.Repeat("{a: ", MaxUser/4),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var into []map[string]any
			if err := Unmarshal(value, MaxUser, &into); err == nil {
				t.Fatal("want an error")
			}
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
				t.Errorf("reading %d bytes allocated %d", len(value), used)
			}
		})
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, s := range []string{"", "[]", "- a: 1", "&a x", "- *a", "{a: [b, {c: d}]}", "? - a\n: - b", "!!binary eA==", "--- a\n--- b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		var list []map[string]any
		if err := Unmarshal(value, MaxUser, &list); err != nil && len(err.Error()) > maxEcho+len("…") {
			t.Errorf("long error %q", err)
		}
		if raw, err := ToJSON(value, MaxUser); err == nil && len(raw) > 64*MaxUser {
			t.Errorf("%d bytes became %d", len(value), len(raw))
		}
	})
}

func TestHasOnly(t *testing.T) {
	known := sets.New("a", "b")
	for value, want := range map[string]bool{
		`[{"a":1,"b":["x:",{"c":1}]}]`: true, `[]`: true, `[{"a":"\"c\":"}]`: true, "[ {\"a\" :\n1} ]": true, `[null]`: true,
		`[{"c":1}]`: false, `[{"a":1},{"b":{"a":1},"c":1}]`: false, `[{"\u0061":1}]`: false,
		`[{a: 1}]`: false, "- a: 1": false, "": false, `[{"a":1}`: false, `"`: false, `[{"a":1}] {"c":1}`: false,
	} {
		if got := HasOnly(value, 2, known); got != want {
			t.Errorf("%s: %t", value, got)
		}
	}
}

// TestApply: an edit sets or removes a key of a copy, which exists where there were no annotations.
func TestApply(t *testing.T) {
	for name, tc := range map[string]struct {
		in   map[string]string
		edit map[string]*string
		want map[string]string
	}{
		"Set":     {in: map[string]string{"a": "1"}, edit: map[string]*string{"a": new("2"), "b": new("")}, want: map[string]string{"a": "2", "b": ""}},
		"Remove":  {in: map[string]string{"a": "1", "b": "2"}, edit: map[string]*string{"a": nil, "c": nil}, want: map[string]string{"b": "2"}},
		"Nothing": {in: map[string]string{"a": "1"}, want: map[string]string{"a": "1"}},
		"None":    {edit: map[string]*string{"a": new("1")}, want: map[string]string{"a": "1"}},
		"NoEdits": {want: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(tc.in)
			if diff := cmp.Diff(tc.want, Apply(tc.in, tc.edit)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, tc.in); diff != "" {
				t.Errorf("the annotations themselves were changed: %s", diff)
			}
		})
	}
}
