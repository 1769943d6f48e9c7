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

func TestCovers(t *testing.T) {
	for _, tc := range []struct {
		pattern string
		path    []Segment
		want    bool
	}{
		// Names.
		{"spec", at("spec"), true},
		{"spec", at("spec", "replicas"), true},
		{"spec", at("spec", "a", 0, "b"), true},
		{"spec", at("specs"), false},
		{"spec", at("status"), false},
		{"spec", nil, false},
		{"spec.replicas", at("spec", "replicas"), true},
		{"spec.replicas", at("spec", "replicas", "x"), true},
		{"spec.replicas", at("spec"), false},
		{"spec.replicas", at("spec", "replica"), false},
		{"spec.replicas", at("spec", "replicasX"), false},
		{"spec.replicas", at("data", "replicas"), false},
		{"spec.forProvider", at("spec", "forProvider", "size"), true},
		{"spec.forProvider", at("spec", "forproviderx"), false},
		{"spec.forProvider.size", at("spec", "forProvider"), false},
		{"spec.Replicas", at("spec", "replicas"), false},
		{"data", at("data", "key"), true},
		{"rules", at("rules", 0, "verbs", 1), true},
		{"a.b.c.d.e", at("a", "b", "c", "d", "e"), true},
		{"a.b.c.d.e", at("a", "b", "c", "d"), false},
		// Keys in brackets.
		{"metadata.annotations[jira]", at("metadata", "annotations", "jira"), true},
		{"metadata.annotations[jira]", at("metadata", "annotations", "jira2"), false},
		{"metadata.annotations[jira]", at("metadata", "annotations"), false},
		{"metadata.annotations[jira]", at("metadata", "labels", "jira"), false},
		{"metadata.annotations['jira']", at("metadata", "annotations", "jira"), true},
		{`metadata.annotations["jira"]`, at("metadata", "annotations", "jira"), true},
		{"metadata.annotations.jira", at("metadata", "annotations", "jira"), true},
		{"spec[replicas]", at("spec", "replicas"), true},
		{"[spec][replicas]", at("spec", "replicas"), true},
		{"['spec'].replicas", at("spec", "replicas"), true},
		// Dots and slashes in keys.
		{"metadata.annotations[kausality.io/mode]", at("metadata", "annotations", "kausality.io/mode"), true},
		{"metadata.annotations['kausality.io/mode']", at("metadata", "annotations", "kausality.io/mode"), true},
		{`metadata.annotations["kausality.io/mode"]`, at("metadata", "annotations", "kausality.io/mode"), true},
		{"metadata.annotations.kausality.io/mode", at("metadata", "annotations", "kausality.io/mode"), false},
		{"metadata.annotations.kausality.io/mode", at("metadata", "annotations", "kausality", "io/mode"), true},
		{"data[config.yaml]", at("data", "config.yaml"), true},
		{"data[config.yaml]", at("data", "config", "yaml"), false},
		{"data.config.yaml", at("data", "config.yaml"), false},
		{"data[.hidden]", at("data", ".hidden"), true},
		{"data[a b]", at("data", "a b"), true},
		{"data['a b']", at("data", "a b"), true},
		{"data[a..b]", at("data", "a..b"), true},
		{"data[äöü]", at("data", "äöü"), true},
		{"data.äöü", at("data", "äöü"), true},
		// Items.
		{"spec.containers[0]", at("spec", "containers", 0), true},
		{"spec.containers[0]", at("spec", "containers", 0, "image"), true},
		{"spec.containers[0]", at("spec", "containers", 1), false},
		{"spec.containers[0]", at("spec", "containers", 10), false},
		{"spec.containers[0]", at("spec", "containers", "0"), false},
		{"spec.containers['0']", at("spec", "containers", "0"), true},
		{"spec.containers['0']", at("spec", "containers", 0), false},
		{"spec.containers[0].image", at("spec", "containers", 0, "image"), true},
		{"spec.containers[0].image", at("spec", "containers", 0), false},
		{"spec.containers[0].image", at("spec", "containers", 0, "imagePullPolicy"), false},
		{"spec.containers[10]", at("spec", "containers", 10), true},
		{"spec.containers[10]", at("spec", "containers", 1), false},
		{"spec.matrix[1][2]", at("spec", "matrix", 1, 2), true},
		{"spec.matrix[1][2]", at("spec", "matrix", 2, 1), false},
		{"spec.matrix[1]", at("spec", "matrix", 1, 2), true},
		{"[0]", at(0), true},
		{"spec.containers", at("spec", "containers", 3, "env", 2, "value"), true},
		// Any index or key.
		{"spec.containers[*]", at("spec", "containers", 0), true},
		{"spec.containers[*]", at("spec", "containers", 7, "image"), true},
		{"spec.containers[*]", at("spec", "containers"), false},
		{"spec.containers[*].image", at("spec", "containers", 0, "image"), true},
		{"spec.containers[*].image", at("spec", "containers", 99, "image"), true},
		{"spec.containers[*].image", at("spec", "containers", 0, "name"), false},
		{"spec.containers[*].image", at("spec", "containers", 0), false},
		{"spec.containers[*].image", at("spec", "initContainers", 0, "image"), false},
		{"spec.containers[*].env[*].value", at("spec", "containers", 1, "env", 2, "value"), true},
		{"spec.containers[*].env[*].value", at("spec", "containers", 1, "env", 2, "name"), false},
		{"spec.containers[*].env[*]", at("spec", "containers", 1, "env", 2, "name"), true},
		{"spec.template.spec.containers[*].image", at("spec", "template", "spec", "containers", 0, "image"), true},
		{"metadata.labels[*]", at("metadata", "labels", "env"), true},
		{"metadata.labels[*]", at("metadata", "labels", "a.b/c"), true},
		{"metadata.labels[*]", at("metadata", "labels"), false},
		{"data[*]", at("data", "config.yaml"), true},
		{"data[*]", at("binaryData", "config.yaml"), false},
		{"spec.pools[*].size", at("spec", "pools", "small", "size"), true},
		{"spec.pools[*].size", at("spec", "pools", 3, "size"), true},
		{"spec.pools.*.size", at("spec", "pools", "small", "size"), true},
		{"spec.pools['*'].size", at("spec", "pools", "small", "size"), true},
		{"spec[*][*]", at("spec", "a", 0), true},
		{"spec[*][*]", at("spec", "a"), false},
		{"[*].size", at("spec", "size"), true},
		// Everything.
		{"*", at("spec"), true},
		{"*", at("spec", "replicas"), true},
		{"*", at("data", "a.b"), true},
		{"*", at("rules", 0), true},
		{"*", at("metadata", "name"), true},
		{"[*]", at("anything", 1), true},
		{"*", nil, false},
		// Paths as policies have them.
		{"spec.size", at("spec", "size"), true},
		{"spec.engine", at("spec", "engine"), true},
		{"spec.size", at("spec", "engine"), false},
		{"spec.template", at("spec", "template", "metadata", "labels", "app"), true},
		{"spec.forProvider.instanceClass", at("spec", "forProvider", "instanceClass"), true},
		{"spec.forProvider.instanceClass", at("spec", "forProvider", "engine"), false},
		{"metadata.name", at("metadata", "name"), true},
		{"metadata.annotations[approved-by]", at("metadata", "annotations", "approved-by"), true},
		{"metadata.annotations.approved-by", at("metadata", "annotations", "approved-by"), true},
		{"spec.selector.app", at("spec", "selector", "app"), true},
		{"spec.template.spec.containers[*]", at("spec", "template", "spec", "containers", 1, "env", 0), true},
		{"spec.template.spec.containers[0].image", at("spec", "template", "spec", "containers", 0, "image"), true},
		{"spec.template.spec.containers[0].image", at("spec", "template", "spec", "containers", 1, "image"), false},
	} {
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
		{"the field itself", detailOf(Mutate, "a:1", "a:2", "spec", "containers", 0, "image"), "spec.containers[0].image", true},
		{"an item with the field comes", detailOf(Insert, nil, containers[1], "spec", "containers", 1), "spec.containers[1].image", true},
		{"an item without it comes", detailOf(Insert, nil, containers[0], "spec", "containers", 0), "", false},
		{"all of it goes", detailOf(Delete, map[string]any{"containers": containers}, nil, "spec"), "spec.containers[1].image", true},
		{"something else", detailOf(Mutate, 1, 2, "spec", "replicas"), "", false},
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
	for _, text := range []string{"spec.template.spec.containers[0].image", "metadata.annotations[jira]", "a['b.c'][*]", "*", "a[", "a]b", "['", "a.\"b\"", "[[]]", "\xff[0]"} {
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
