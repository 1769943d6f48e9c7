package external

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/change"
)

var databases = schema.GroupKind{Group: "cloud.example.org", Kind: "Database"}

func TestRules(t *testing.T) {
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
		"None":        {"nothing is ignored", nil, databases, nil},
		"Path":        {"a path covers what lies below it, and no neighbour", []string{"Database.cloud.example.org:spec.forProvider.tags"}, databases, []int{1, 2}},
		"Key":         {"one key", []string{"Database.cloud.example.org:spec.forProvider.tags[a.b/c]"}, databases, []int{2}},
		"Any":         {"any index", []string{"Database.cloud.example.org:spec.forProvider.rules[*].port"}, databases, []int{4}},
		"Below":       {"a path below what differs does not cover it", []string{"Database.cloud.example.org:spec.forProvider.size.unit"}, databases, nil},
		"OtherKind":   {"another kind's", []string{"Instance.cloud.example.org:spec.forProvider.tags"}, databases, nil},
		"OtherGroup":  {"another group's", []string{"Database.aws.example.org:spec.forProvider.tags"}, databases, nil},
		"AnyKind":     {"all kinds", []string{"*:spec.forProvider.size"}, databases, []int{0}},
		"AnyOfGroup":  {"all kinds of a group", []string{"*.cloud.example.org:spec.forProvider.size"}, databases, []int{0}},
		"Everything":  {"all of it", []string{"*:spec.forProvider"}, databases, []int{0, 1, 2, 3, 4, 5}},
		"TwoOfThem":   {"rules add up", []string{"*:spec.forProvider.size", "*:spec.forProvider.tagsets"}, databases, []int{0, 3}},
		"LegacyGroup": {"a kind of the core group", []string{"Database:spec.forProvider.size"}, schema.GroupKind{Kind: "Database"}, []int{0}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, parsed := &Rules{}, []Rule{}
			for _, text := range tc.rules {
				one, err := ParseRule(text)
				if err != nil {
					t.Fatal(err)
				}
				parsed = append(parsed, one)
			}
			if _, err := r.Set("test", parsed...); err != nil {
				t.Fatal(err)
			}
			var want []string
			for i, d := range diffs {
				if !slices.Contains(tc.gone, i) {
					want = append(want, d.Path)
				}
			}
			before := slices.Clone(diffs)
			got := change.Paths(r.Filter(tc.kind, diffs))
			if len(got) == 0 {
				got = nil
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

func TestParseRuleErrors(t *testing.T) {
	for _, text := range []string{"", "spec.forProvider.size", ":spec.forProvider", "Database.x:status.atProvider", "Database.x:", "Database.x:spec.forProviderX"} {
		if r, err := ParseRule(text); err == nil {
			t.Errorf("%q is read as %+v", text, r)
		}
	}
}

// Sources come and go, while others ask.
func TestRulesSources(t *testing.T) {
	r := &Rules{}
	size := Rule{Kind: databases, Paths: []string{"spec.forProvider.size"}}
	diff := []change.Change{{Path: "spec.forProvider.size"}}
	set := func(source string, want bool, rules ...Rule) {
		t.Helper()
		if got, err := r.Set(source, rules...); err != nil || got != want {
			t.Errorf("set %s: changed %t, %v", source, got, err)
		}
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				r.Filter(databases, diff)
			}
		})
	}
	set("a", true, size)
	set("a", false, size)
	set("b", true, size)
	set("a", true)
	set("a", false)
	if len(r.Filter(databases, diff)) != 0 {
		t.Error("b still ignores it")
	}
	set("b", true)
	if len(r.Filter(databases, diff)) != 1 {
		t.Error("nobody ignores it")
	}
	if _, err := r.Set("a", Rule{Paths: []string{"status"}}); err == nil {
		t.Error("a path that matches nothing")
	}
	var none *Rules
	if len(none.Filter(databases, diff)) != 1 {
		t.Error("nil ignores something")
	}
	wg.Wait()
}

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"*:spec.forProvider", "Database.cloud.example.org:spec.forProvider.tags[*].x", "a:b", "[:]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		rule, err := ParseRule(in)
		if err != nil {
			return
		}
		r := &Rules{}
		if _, err := r.Set("x", rule); err != nil {
			t.Fatal(err)
		}
		r.Filter(rule.Kind, []change.Change{{Path: rule.Paths[0]}})
	})
}
