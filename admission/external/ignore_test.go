package external

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/change"
)

var databases = schema.GroupKind{Group: "cloud.example.org", Kind: "Database"}

func parseRules(t *testing.T, texts ...string) Rules {
	t.Helper()
	var out Rules
	for _, text := range texts {
		r, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// TestRules covers KR-08-21.
func TestRules(t *testing.T) {
	const of = "Database.cloud.example.org:spec.forProvider"
	diffs := []change.Change{
		{Path: "spec.forProvider.size"}, {Path: "spec.forProvider.tags"}, {Path: "spec.forProvider.tags[a.b/c]"},
		{Path: "spec.forProvider.tagsets"}, {Path: "spec.forProvider.rules[2].port"}, {Path: "spec.forProvider.rules[2].name"},
	}
	cases := map[string]struct {
		reason string
		rules  []string
		kind   schema.GroupKind
		gone   []int
	}{
		"None":        {reason: "nothing is ignored", kind: databases},
		"Path":        {reason: "a path covers what is below it, and no neighbour", rules: []string{of + ".tags"}, kind: databases, gone: []int{1, 2}},
		"Key":         {reason: "one key", rules: []string{of + ".tags[a.b/c]"}, kind: databases, gone: []int{2}},
		"QuotedKey":   {reason: "the same key in quotes", rules: []string{of + ".tags['a.b/c']"}, kind: databases, gone: []int{2}},
		"Any":         {reason: "any index", rules: []string{of + ".rules[*].port"}, kind: databases, gone: []int{4}},
		"AnyName":     {reason: "any index, as a name", rules: []string{of + ".rules.*.port"}, kind: databases, gone: []int{4}},
		"IndexAsName": {reason: "an index, as a name", rules: []string{of + ".rules.2.port"}, kind: databases, gone: []int{4}},
		"OtherIndex":  {reason: "another index", rules: []string{of + ".rules[1].port"}, kind: databases},
		"Below":       {reason: "a path below what differs does not cover it", rules: []string{of + ".size.unit"}, kind: databases},
		"OtherKind":   {reason: "another kind's", rules: []string{"Instance.cloud.example.org:spec.forProvider.tags"}, kind: databases},
		"OtherGroup":  {reason: "another group's", rules: []string{"Database.aws.example.org:spec.forProvider.tags"}, kind: databases},
		"AnyKind":     {reason: "all kinds", rules: []string{"*:spec.forProvider.size"}, kind: databases, gone: []int{0}},
		"AnyOfGroup":  {reason: "all kinds of a group", rules: []string{"*.cloud.example.org:spec.forProvider.size"}, kind: databases, gone: []int{0}},
		"Everything":  {reason: "all of it", rules: []string{"*:spec.forProvider"}, kind: databases, gone: []int{0, 1, 2, 3, 4, 5}},
		"TwoOfThem":   {reason: "rules add up", rules: []string{"*:spec.forProvider.size", "*:spec.forProvider.tagsets"}, kind: databases, gone: []int{0, 3}},
		"CoreGroup": {reason: "a kind of the core group", rules: []string{"Database:spec.forProvider.size"},
			kind: schema.GroupKind{Kind: "Database"}, gone: []int{0}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var want []string
			for i, d := range diffs {
				if !slices.Contains(tc.gone, i) {
					want = append(want, d.Path)
				}
			}
			before := slices.Clone(diffs)
			var got []string
			for _, d := range parseRules(t, tc.rules...).Filter(tc.kind, diffs) {
				got = append(got, d.Path)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(before, diffs); diff != "" {
				t.Errorf("input modified:\n%s", diff)
			}
		})
	}
}

// TestRulesOldSpellings: what older versions matched by splitting a path at
// periods and brackets is matched still. Paths are keys of maps and items of
// lists as change.Text writes them.
func TestRulesOldSpellings(t *testing.T) {
	cases := map[string]struct {
		reason string
		path   string
		covers []string
		not    []string
	}{
		"NumberAsName": {reason: "a number after a period is a key, and was an index, too",
			path: ".rules.2.port", covers: []string{".rules[2].port", ".rules.2.port"}, not: []string{".rules[3].port"}},
		"NumberInBrackets": {reason: "a number in brackets is an index, and was a key, too",
			path: ".rules[2].port", covers: []string{".rules[2].port", ".rules.2.port"}, not: []string{".rules.02.port"}},
		"TwoNumbers": {reason: "each by itself", path: ".a.1.b[2]",
			covers: []string{".a[1].b[2]", ".a.1.b[2]", ".a[1].b.2", ".a.1.b.2"}, not: []string{".a[2].b[1]"}},
		"PlainInBrackets": {reason: "a plain name in brackets is that name", path: ".tags[team]", covers: []string{".tags.team"}},
		"QuoteInKey":      {reason: "a quote was a part of the key", path: ".tags[it's]", covers: []string{".tags[it's]"}, not: []string{".tags.its"}},
		"QuotesOfKey":     {reason: "quotes around a key are none of it, and were", path: `.tags["a.b"]`, covers: []string{".tags[a.b]", `.tags["a.b"]`}},
		"BracketInKey":    {reason: "an opening bracket was a part of the key", path: ".tags[a[b]", covers: []string{".tags[a[b]"}},
		"EmptyKey":        {reason: "the empty key", path: ".tags[]", covers: []string{".tags[]"}, not: []string{".tags.a"}},
		"Periods":         {reason: "a period too many was ignored", path: "..tags.", covers: []string{".tags", ".tags.a"}, not: []string{".size"}},
		"PeriodBracket":   {reason: "so was one before a bracket", path: ".tags.[a.b]", covers: []string{".tags[a.b]"}},
		"NameAfterKey":    {reason: "and one that is missing", path: ".rules[*]port", covers: []string{".rules[2].port"}},
		"OpenBracket": {reason: "a bracket that is not closed ends with the path", path: ".tags[a.b", covers: []string{".tags[a.b]"},
			not: []string{".tags[a.b.c]"}},
		"StarInName": {reason: "a star within a name is no other name", path: ".a*", covers: []string{".a*"}, not: []string{".ab"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rules := parseRules(t, "*:spec.forProvider"+tc.path)
			filtered := func(path string) bool {
				return len(rules.Filter(databases, []change.Change{{Path: "spec.forProvider" + path}})) == 0
			}
			for _, p := range tc.covers {
				if !filtered(p) {
					t.Errorf("%s: %s is not ignored", tc.reason, p)
				}
			}
			for _, p := range tc.not {
				if filtered(p) {
					t.Errorf("%s: %s is ignored", tc.reason, p)
				}
			}
		})
	}
}

func TestParseRuleErrors(t *testing.T) {
	for _, text := range []string{
		"", "spec.forProvider.size", ":spec.forProvider", "Database.x:status.atProvider", "Database.x:", "Database.x:spec.forProviderX",
	} {
		if _, err := ParseRule(text); err == nil {
			t.Errorf("%q is read as a rule", text)
		}
	}
}

// FuzzParseRule: a rule covers what older versions covered.
func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"*:spec.forProvider", "Database.cloud.example.org:spec.forProvider.tags[*].x", "a:b", "[:]", "*:spec.forProvider.rules.2[x.y]"} {
		f.Add(s, "spec.forProvider.tags[a.b].x")
		f.Add(s, "spec.forProvider.rules[2][x.y]")
	}
	f.Fuzz(func(t *testing.T, in, path string) {
		rule, err := ParseRule(in)
		if err != nil || strings.Count(path, ".")+strings.Count(in, ".") > 12 {
			return
		}
		_, pattern, _ := strings.Cut(in, ":")
		left := Rules{rule}.Filter(rule.kind, []change.Change{{Path: path}})
		if oldCovers(oldSegments(pattern), oldSegments(path)) && len(left) > 0 {
			t.Errorf("%q does not cover %q any more", pattern, path)
		}
	})
}

// oldCovers and oldSegments are what older versions matched paths with.
func oldCovers(pattern, path []string) bool {
	if len(pattern) > len(path) {
		return false
	}
	for i, p := range pattern {
		if p != "*" && p != path[i] {
			return false
		}
	}
	return true
}

func oldSegments(path string) []string {
	var out []string
	for path != "" {
		switch path[0] {
		case '.':
			path = path[1:]
		case '[':
			key, rest, _ := strings.Cut(path[1:], "]")
			out, path = append(out, key), rest
		default:
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			out, path = append(out, path[:end]), path[end:]
		}
	}
	return out
}
