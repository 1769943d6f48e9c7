package change

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// at is a path: strings are keys, numbers are items.
func at(parts ...any) []Segment {
	var out []Segment
	for _, p := range parts {
		switch v := p.(type) {
		case string:
			out = append(out, Segment{Key: v})
		case int:
			out = append(out, Segment{Index: v, Item: true})
		}
	}
	return out
}

// coversCase is a pattern and a path, and whether the pattern covers it.
type coversCase struct {
	pattern string
	path    []Segment
	want    bool
}

// testCovers checks what patterns cover, and that they are written as they were read.
func testCovers(t *testing.T, cases []coversCase) {
	t.Helper()
	for _, tc := range cases {
		p, err := ParsePattern(tc.pattern)
		if err != nil {
			t.Errorf("%q: %v", tc.pattern, err)
			continue
		}
		if got := p.Covers(tc.path); got != tc.want {
			t.Errorf("%q covers %s: %v, want %v", tc.pattern, Text(tc.path), got, tc.want)
		}
		if p.String() != tc.pattern {
			t.Errorf("%q is written %q", tc.pattern, p)
		}
	}
}

// TestCovers covers KR-06-02.
func TestCovers(t *testing.T) {
	testCovers(t, []coversCase{
		// Names.
		{pattern: "spec", path: at("spec"), want: true},
		{pattern: "spec", path: at("spec", "replicas"), want: true},
		{pattern: "spec", path: at("spec", "a", 0, "b"), want: true},
		{pattern: "spec", path: at("specs")},
		{pattern: "spec", path: at("status")},
		{pattern: "spec"},
		{pattern: "spec.replicas", path: at("spec", "replicas"), want: true},
		{pattern: "spec.replicas", path: at("spec", "replicas", "x"), want: true},
		{pattern: "spec.replicas", path: at("spec")},
		{pattern: "spec.replicas", path: at("spec", "replica")},
		{pattern: "spec.replicas", path: at("spec", "replicasX")},
		{pattern: "spec.replicas", path: at("data", "replicas")},
		{pattern: "spec.forProvider", path: at("spec", "forProvider", "size"), want: true},
		{pattern: "spec.forProvider", path: at("spec", "forproviderx")},
		{pattern: "spec.forProvider.size", path: at("spec", "forProvider")},
		{pattern: "spec.Replicas", path: at("spec", "replicas")},
		{pattern: "data", path: at("data", "key"), want: true},
		{pattern: "rules", path: at("rules", 0, "verbs", 1), want: true},
		{pattern: "a.b.c.d.e", path: at("a", "b", "c", "d", "e"), want: true},
		{pattern: "a.b.c.d.e", path: at("a", "b", "c", "d")},
		// Paths as policies have them.
		{pattern: "spec.size", path: at("spec", "size"), want: true},
		{pattern: "spec.engine", path: at("spec", "engine"), want: true},
		{pattern: "spec.size", path: at("spec", "engine")},
		{pattern: "spec.template", path: at("spec", "template", "metadata", "labels", "app"), want: true},
		{pattern: "spec.forProvider.instanceClass", path: at("spec", "forProvider", "instanceClass"), want: true},
		{pattern: "spec.forProvider.instanceClass", path: at("spec", "forProvider", "engine")},
		{pattern: "metadata.name", path: at("metadata", "name"), want: true},
		{pattern: "metadata.annotations[approved-by]", path: at("metadata", "annotations", "approved-by"), want: true},
		{pattern: "metadata.annotations.approved-by", path: at("metadata", "annotations", "approved-by"), want: true},
		{pattern: "spec.selector.app", path: at("spec", "selector", "app"), want: true},
		{pattern: "spec.template.spec.containers[*]", path: at("spec", "template", "spec", "containers", 1, "env", 0), want: true},
		{pattern: "spec.template.spec.containers[0].image", path: at("spec", "template", "spec", "containers", 0, "image"),
			want: true},
		{pattern: "spec.template.spec.containers[0].image", path: at("spec", "template", "spec", "containers", 1, "image")},
	})
}

// TestCoversKeys covers KR-06-02 for keys in brackets.
func TestCoversKeys(t *testing.T) {
	testCovers(t, []coversCase{
		// Keys in brackets.
		{pattern: "metadata.annotations[jira]", path: at("metadata", "annotations", "jira"), want: true},
		{pattern: "metadata.annotations[jira]", path: at("metadata", "annotations", "jira2")},
		{pattern: "metadata.annotations[jira]", path: at("metadata", "annotations")},
		{pattern: "metadata.annotations[jira]", path: at("metadata", "labels", "jira")},
		{pattern: "metadata.annotations['jira']", path: at("metadata", "annotations", "jira"), want: true},
		{pattern: `metadata.annotations["jira"]`, path: at("metadata", "annotations", "jira"), want: true},
		{pattern: "metadata.annotations.jira", path: at("metadata", "annotations", "jira"), want: true},
		{pattern: "spec[replicas]", path: at("spec", "replicas"), want: true},
		{pattern: "[spec][replicas]", path: at("spec", "replicas"), want: true},
		{pattern: "['spec'].replicas", path: at("spec", "replicas"), want: true},
		// Dots and slashes in keys.
		{pattern: "metadata.annotations[kausality.io/mode]", path: at("metadata", "annotations", "kausality.io/mode"), want: true},
		{pattern: "metadata.annotations['kausality.io/mode']", path: at("metadata", "annotations", "kausality.io/mode"), want: true},
		{pattern: `metadata.annotations["kausality.io/mode"]`, path: at("metadata", "annotations", "kausality.io/mode"), want: true},
		{pattern: "metadata.annotations.kausality.io/mode", path: at("metadata", "annotations", "kausality.io/mode")},
		{pattern: "metadata.annotations.kausality.io/mode", path: at("metadata", "annotations", "kausality", "io/mode"), want: true},
		{pattern: "data[config.yaml]", path: at("data", "config.yaml"), want: true},
		{pattern: "data[config.yaml]", path: at("data", "config", "yaml")},
		{pattern: "data.config.yaml", path: at("data", "config.yaml")},
		{pattern: "data[.hidden]", path: at("data", ".hidden"), want: true},
		{pattern: "data[a b]", path: at("data", "a b"), want: true},
		{pattern: "data['a b']", path: at("data", "a b"), want: true},
		{pattern: "data[a..b]", path: at("data", "a..b"), want: true},
		{pattern: "data[äöü]", path: at("data", "äöü"), want: true},
		{pattern: "data.äöü", path: at("data", "äöü"), want: true},
	})
}

// TestCoversItems covers KR-06-02 for items of lists.
func TestCoversItems(t *testing.T) {
	testCovers(t, []coversCase{
		{pattern: "spec.containers[0]", path: at("spec", "containers", 0), want: true},
		{pattern: "spec.containers[0]", path: at("spec", "containers", 0, "image"), want: true},
		{pattern: "spec.containers[0]", path: at("spec", "containers", 1)},
		{pattern: "spec.containers[0]", path: at("spec", "containers", 10)},
		{pattern: "spec.containers[0]", path: at("spec", "containers", "0")},
		{pattern: "spec.containers['0']", path: at("spec", "containers", "0"), want: true},
		{pattern: "spec.containers['0']", path: at("spec", "containers", 0)},
		{pattern: "spec.containers[0].image", path: at("spec", "containers", 0, "image"), want: true},
		{pattern: "spec.containers[0].image", path: at("spec", "containers", 0)},
		{pattern: "spec.containers[0].image", path: at("spec", "containers", 0, "imagePullPolicy")},
		{pattern: "spec.containers[10]", path: at("spec", "containers", 10), want: true},
		{pattern: "spec.containers[10]", path: at("spec", "containers", 1)},
		{pattern: "spec.matrix[1][2]", path: at("spec", "matrix", 1, 2), want: true},
		{pattern: "spec.matrix[1][2]", path: at("spec", "matrix", 2, 1)},
		{pattern: "spec.matrix[1]", path: at("spec", "matrix", 1, 2), want: true},
		{pattern: "[0]", path: at(0), want: true},
		{pattern: "spec.containers", path: at("spec", "containers", 3, "env", 2, "value"), want: true},
	})
}

// TestCoversAny covers KR-06-02 for patterns with an asterisk.
func TestCoversAny(t *testing.T) {
	testCovers(t, []coversCase{
		// Any index or key.
		{pattern: "spec.containers[*]", path: at("spec", "containers", 0), want: true},
		{pattern: "spec.containers[*]", path: at("spec", "containers", 7, "image"), want: true},
		{pattern: "spec.containers[*]", path: at("spec", "containers")},
		{pattern: "spec.containers[*].image", path: at("spec", "containers", 0, "image"), want: true},
		{pattern: "spec.containers[*].image", path: at("spec", "containers", 99, "image"), want: true},
		{pattern: "spec.containers[*].image", path: at("spec", "containers", 0, "name")},
		{pattern: "spec.containers[*].image", path: at("spec", "containers", 0)},
		{pattern: "spec.containers[*].image", path: at("spec", "initContainers", 0, "image")},
		{pattern: "spec.containers[*].env[*].value", path: at("spec", "containers", 1, "env", 2, "value"), want: true},
		{pattern: "spec.containers[*].env[*].value", path: at("spec", "containers", 1, "env", 2, "name")},
		{pattern: "spec.containers[*].env[*]", path: at("spec", "containers", 1, "env", 2, "name"), want: true},
		{pattern: "spec.template.spec.containers[*].image", path: at("spec", "template", "spec", "containers", 0, "image"),
			want: true},
		{pattern: "metadata.labels[*]", path: at("metadata", "labels", "env"), want: true},
		{pattern: "metadata.labels[*]", path: at("metadata", "labels", "a.b/c"), want: true},
		{pattern: "metadata.labels[*]", path: at("metadata", "labels")},
		{pattern: "data[*]", path: at("data", "config.yaml"), want: true},
		{pattern: "data[*]", path: at("binaryData", "config.yaml")},
		{pattern: "spec.pools[*].size", path: at("spec", "pools", "small", "size"), want: true},
		{pattern: "spec.pools[*].size", path: at("spec", "pools", 3, "size"), want: true},
		{pattern: "spec.pools.*.size", path: at("spec", "pools", "small", "size"), want: true},
		{pattern: "spec.pools['*'].size", path: at("spec", "pools", "small", "size"), want: true},
		{pattern: "spec[*][*]", path: at("spec", "a", 0), want: true},
		{pattern: "spec[*][*]", path: at("spec", "a")},
		{pattern: "[*].size", path: at("spec", "size"), want: true},
		// Everything.
		{pattern: "*", path: at("spec"), want: true},
		{pattern: "*", path: at("spec", "replicas"), want: true},
		{pattern: "*", path: at("data", "a.b"), want: true},
		{pattern: "*", path: at("rules", 0), want: true},
		{pattern: "*", path: at("metadata", "name"), want: true},
		{pattern: "[*]", path: at("anything", 1), want: true},
		{pattern: "*"},
	})
}

func TestParsePatternErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "a path is empty",
		".spec":               "unexpected '.' at position 0",
		"spec.":               "unexpected '.' at position 4",
		"spec..a":             "unexpected '.' at position 5",
		"spec[":               "unterminated '[' at position 4",
		"spec[]":              "unexpected ']' at position 5",
		"spec]":               "unexpected ']' at position 4",
		"spec.[0]":            "unexpected '[' at position 5",
		"spec[a[b]]":          "unexpected '[' at position 6",
		"spec[0]image":        "a period or a bracket is missing at position 7",
		"spec['a]":            "a quote that is not closed at position 5",
		`spec["a']`:           "a quote that is not closed at position 5",
		"spec['']":            "an empty key at position 5",
		"spec.'a'":            `unexpected '\'' at position 5`,
		"spec. a":             "unexpected ' ' at position 5",
		"spec\n":              `unexpected '\n' at position 4`,
		"metadata.labels['a'": "unterminated '[' at position 15",
	} {
		_, err := ParsePattern(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestTouchesAndFind(t *testing.T) {
	image, err := ParsePattern("spec.containers[*].image")
	if err != nil {
		t.Fatal(err)
	}
	containers := []any{map[string]any{"name": "a"}, map[string]any{"name": "b", "image": "b:1"}}
	for _, tc := range []struct {
		reason string
		change Detail
		field  string
		ok     bool
	}{
		{reason: "the field itself", change: detailOf(Mutate, "a:1", "a:2", "spec", "containers", 0, "image"),
			field: "spec.containers[0].image", ok: true},
		{reason: "an item with the field comes", change: detailOf(Insert, nil, containers[1], "spec", "containers", 1),
			field: "spec.containers[1].image", ok: true},
		{reason: "an item without it comes", change: detailOf(Insert, nil, containers[0], "spec", "containers", 0)},
		{reason: "all of it goes", change: detailOf(Delete, map[string]any{"containers": containers}, nil, "spec"),
			field: "spec.containers[1].image", ok: true},
		{reason: "something else", change: detailOf(Mutate, 1, 2, "spec", "replicas")},
	} {
		field, ok := image.Touches(tc.change)
		if field != tc.field || ok != tc.ok {
			t.Errorf("%s: %q, %v", tc.reason, field, ok)
		}
	}
	found := image.Find(map[string]any{"spec": map[string]any{"containers": containers}})
	if d := cmp.Diff([]Found{{At: at("spec", "containers", 1, "image"), Value: "b:1"}}, found); d != "" {
		t.Error(d)
	}
	if (Pattern{}).Covers(at("spec")) || (Pattern{}).Find(map[string]any{"a": 1}) != nil {
		t.Error("the zero pattern matches")
	}
}

func detailOf(v Verb, old, new any, path ...any) Detail {
	p := at(path...)
	return Detail{Change: Change{Path: Text(p), Verb: v, Old: old, New: new}, At: p}
}

// covers is what a pattern means, as plainly as possible: each segment of
// the pattern is the segment of the path, or any.
func covers(pattern []string, path []string) bool {
	if len(pattern) > len(path) {
		return false
	}
	for i, s := range pattern {
		if s != "[*]" && s != path[i] {
			return false
		}
	}
	return true
}

var segments = rapid.SampledFrom([]string{".a", ".b", ".spec", "[0]", "[1]", "[x.y]", "[k/v]"})

func TestCoversEqualsNaiveMatcher(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SliceOfN(segments, 1, 5).Draw(t, "path")
		pattern := rapid.SliceOfN(rapid.OneOf(segments, rapid.Just("[*]")), 1, 5).Draw(t, "pattern")
		if rapid.Bool().Draw(t, "from the path") {
			pattern = slices.Clone(path[:rapid.IntRange(1, len(path)).Draw(t, "length")])
			if i := rapid.IntRange(-1, len(pattern)-1).Draw(t, "any"); i >= 0 {
				pattern[i] = "[*]"
			}
		}
		p, err := ParsePattern(strings.TrimPrefix(strings.Join(pattern, ""), "."))
		if err != nil {
			t.Fatal(err)
		}
		var concrete []Segment
		for _, s := range path {
			switch s {
			case "[0]", "[1]":
				concrete = append(concrete, Segment{Item: true, Index: int(s[1] - '0')})
			default:
				concrete = append(concrete, Segment{Key: strings.Trim(s, ".[]")})
			}
		}
		if got, want := p.Covers(concrete), covers(pattern, path); got != want {
			t.Fatalf("%q covers %v: %v, want %v", p, path, got, want)
		}
	})
}

func FuzzParsePattern(f *testing.F) {
	for _, text := range []string{"spec.template.spec.containers[0].image", "metadata.annotations[jira]", "a['b.c'][*]", "*", "a[", "a]b",
		"['", "a.\"b\"", "[[]]", "\xff[0]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePattern(text)
		if err != nil {
			return
		}
		if p.String() != text || len(p.segments) == 0 {
			t.Errorf("%q is read as %q with %d segments", text, p, len(p.segments))
		}
		path := make([]Segment, 0, len(p.segments))
		for _, s := range p.segments {
			path = append(path, s.Segment) // an any segment matches every key, the empty one too
		}
		if !p.Covers(path) || p.Covers(path[:len(path)-1]) {
			t.Errorf("%q does not cover its own path, or more", text)
		}
	})
}

func TestIndexEqualsItsPatterns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x Index
		var patterns []Pattern
		for i := range rapid.IntRange(0, 6).Draw(t, "patterns") {
			text := strings.TrimPrefix(strings.Join(rapid.SliceOfN(rapid.OneOf(segments, rapid.Just("[*]")), 1, 4).Draw(t, "pattern"), ""), ".")
			p, err := ParsePattern(text)
			if err != nil {
				t.Fatal(err)
			}
			x.Add(p, 1<<i)
			patterns = append(patterns, p)
		}
		var path []Segment
		for _, s := range rapid.SliceOfN(segments, 1, 5).Draw(t, "path") {
			if s == "[0]" || s == "[1]" {
				path = append(path, Segment{Item: true, Index: int(s[1] - '0')})
			} else {
				path = append(path, Segment{Key: strings.Trim(s, ".[]")})
			}
		}
		var want uint8
		for i, p := range patterns {
			if p.Covers(path) {
				want |= 1 << i
			}
		}
		if got := x.Covers(path); got != want {
			t.Fatalf("%s: %b, want %b", Text(path), got, want)
		}
	})
}

// TestSplitPath: SplitPath is the inverse of Text.
func TestSplitPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Segment {
			if rapid.Bool().Draw(t, "item") {
				return Segment{Item: true, Index: rapid.IntRange(0, 1000).Draw(t, "index")}
			}
			return Segment{Key: strings.ReplaceAll(rapid.String().Draw(t, "key"), "]", "")}
		})).Draw(t, "path")
		if len(path) == 0 {
			path = nil
		}
		if d := cmp.Diff(path, SplitPath(Text(path))); d != "" {
			t.Errorf("%s: -want, +got:\n%s", Text(path), d)
		}
	})
}

// TestPatternOf: the pattern of a path covers the path and what is below it.
func TestPatternOf(t *testing.T) {
	cases := map[string]struct {
		reason string
		of     []Segment
		path   []Segment
		want   bool
	}{
		"Itself":  {reason: "the path itself", of: at("spec", 0), path: at("spec", 0), want: true},
		"Below":   {reason: "what is below it", of: at("spec", 0), path: at("spec", 0, "a"), want: true},
		"Above":   {reason: "nothing above it", of: at("spec", 0), path: at("spec")},
		"Beside":  {reason: "nothing beside it", of: at("spec", 0), path: at("spec", 1)},
		"AnyKey":  {reason: "a star is any key", of: at("spec", "*"), path: at("spec", "a"), want: true},
		"AnyItem": {reason: "and any index", of: at("spec", "*"), path: at("spec", 3), want: true},
		"Number":  {reason: "a key of digits is no index", of: at("spec", "3"), path: at("spec", 3)},
		"Empty":   {reason: "no path, no match", path: at("spec")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := PatternOf(tc.of).Covers(tc.path); got != tc.want {
				t.Errorf("%s: want %t, got %t", tc.reason, tc.want, got)
			}
		})
	}
}
