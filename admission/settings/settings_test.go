package settings

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func policy(name string, edit func(*v1alpha1.KausalitySpec)) *v1alpha1.Kausality {
	k := &v1alpha1.Kausality{ObjectMeta: metav1.ObjectMeta{Name: name}}
	k.Spec.Resources = []v1alpha1.GuardedResources{{APIGroups: []string{"example.org"}, Resources: []string{"*"}}}
	if edit != nil {
		edit(&k.Spec)
	}
	return k
}

func named(names ...string) func(*v1alpha1.KausalitySpec) {
	return func(s *v1alpha1.KausalitySpec) { s.Namespaces = &v1alpha1.GuardedNamespaces{Names: names} }
}

func selected(key, value string) func(*v1alpha1.KausalitySpec) {
	return func(s *v1alpha1.KausalitySpec) {
		s.Namespaces = &v1alpha1.GuardedNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
	}
}

func resources(group string, resources ...string) func(*v1alpha1.KausalitySpec) {
	return func(s *v1alpha1.KausalitySpec) {
		s.Resources = []v1alpha1.GuardedResources{{APIGroups: []string{group}, Resources: resources}}
	}
}

func with(edits ...func(*v1alpha1.KausalitySpec)) func(*v1alpha1.KausalitySpec) {
	return func(s *v1alpha1.KausalitySpec) {
		for _, e := range edits {
			e(s)
		}
	}
}

func mode(m v1alpha1.Mode, overrides ...v1alpha1.ModeOverride) func(*v1alpha1.KausalitySpec) {
	return func(s *v1alpha1.KausalitySpec) { s.Mode, s.Overrides = m, overrides }
}

// db is an object in Namespace prod, which is labelled env=prod.
var db = Target{Group: "example.org", Resource: "databases", Namespace: "prod",
	NamespaceLabels: map[string]string{"env": "prod"}, Labels: map[string]string{"tier": "gold"}}

func TestFor(t *testing.T) {
	clusterScoped := Target{Group: "example.org", Resource: "databases"}
	cases := map[string]struct {
		reason   string
		policies []*v1alpha1.Kausality
		target   Target
		policy   string
		mode     v1alpha1.Mode
	}{
		"None": {reason: "Without a policy nothing is set.", target: db},
		"OtherGroup": {reason: "A group is named exactly.", policies: []*v1alpha1.Kausality{policy("a", resources("apps", "*"))},
			target: db},
		"OtherResource": {reason: "So is a resource.",
			policies: []*v1alpha1.Kausality{policy("a", resources("example.org", "caches"))}, target: db},
		"NamedOverSelected": {reason: "A named Namespace goes before a selected one.",
			policies: []*v1alpha1.Kausality{policy("a", selected("env", "prod")), policy("z", named("prod"))}, target: db, policy: "z"},
		"SelectedOverAll": {reason: "A selected Namespace goes before all.",
			policies: []*v1alpha1.Kausality{policy("a", nil), policy("z", selected("env", "prod"))}, target: db, policy: "z"},
		"NamedResourceOverAll": {reason: "A named resource goes before all of its group.",
			policies: []*v1alpha1.Kausality{policy("a", nil), policy("z", resources("example.org", "databases"))}, target: db, policy: "z"},
		"NamespaceOverResource": {reason: "The Namespace counts for more than the resource.",
			policies: []*v1alpha1.Kausality{policy("a", resources("example.org", "databases")), policy("z", named("prod"))}, target: db, policy: "z"},
		"ByName": {reason: "All else being equal, the first by name.",
			policies: []*v1alpha1.Kausality{policy("b", nil), policy("a", nil)}, target: db, policy: "a"},
		"SelectorDoesNotMatch": {reason: "A selector that does not match is no policy.",
			policies: []*v1alpha1.Kausality{policy("a", nil), policy("z", selected("env", "test"))}, target: db, policy: "a"},
		"ExcludedNamespace": {reason: "An excluded Namespace falls to the next policy.",
			policies: []*v1alpha1.Kausality{policy("a", func(s *v1alpha1.KausalitySpec) {
				s.Namespaces = &v1alpha1.GuardedNamespaces{Excluded: []string{"prod"}}
			}), policy("b", nil)}, target: db, policy: "b"},
		"ExcludedResource": {reason: "So does an excluded resource.",
			policies: []*v1alpha1.Kausality{policy("a", func(s *v1alpha1.KausalitySpec) { s.Resources[0].Excluded = []string{"databases"} }), policy("b", nil)},
			target:   db, policy: "b"},
		"ObjectSelector": {reason: "An object without the labels is not covered.",
			policies: []*v1alpha1.Kausality{policy("a", func(s *v1alpha1.KausalitySpec) {
				s.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "bronze"}}
			}), policy("b", func(s *v1alpha1.KausalitySpec) {
				s.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
			})}, target: db, policy: "b"},
		"ClusterScoped": {reason: "A policy for some Namespaces does not cover what has none.",
			policies: []*v1alpha1.Kausality{policy("a", named("prod")), policy("b", selected("env", "prod")), policy("c", nil)}, target: clusterScoped,
			policy: "c"},
		"Mode": {reason: "The mode is the policy's.", policies: []*v1alpha1.Kausality{policy("a", mode("enforce"))}, target: db,
			policy: "a", mode: "enforce"},
		"FirstOverride": {reason: "The first override that matches holds.", policies: []*v1alpha1.Kausality{policy("a", mode("log",
			v1alpha1.ModeOverride{Namespaces: []string{"test"}, Mode: "log"},
			v1alpha1.ModeOverride{Resources: []string{"databases"}, Mode: "enforce"},
			v1alpha1.ModeOverride{Namespaces: []string{"prod"}, Mode: "log"}))}, target: db, policy: "a", mode: "enforce"},
		"OverrideIsNotMoreSpecific": {reason: "An override in a policy does not take it before a more specific one.",
			policies: []*v1alpha1.Kausality{policy("a", mode("log", v1alpha1.ModeOverride{Namespaces: []string{"prod"}, Mode: "enforce"})),
				policy("z", with(named("prod"), mode("log")))},
			target: db, policy: "z", mode: "log"},
		"OverrideOfExcluded": {reason: "An override brings back nothing that is excluded.",
			policies: []*v1alpha1.Kausality{policy("a", with(mode("log", v1alpha1.ModeOverride{Resources: []string{"databases"}, Mode: "enforce"}),
				func(s *v1alpha1.KausalitySpec) { s.Resources[0].Excluded = []string{"databases"} }))}, target: db},
		"OverrideElsewhere": {reason: "An override for what the policy does not cover is nothing.",
			policies: []*v1alpha1.Kausality{policy("a", with(named("prod"), mode("log", v1alpha1.ModeOverride{Namespaces: []string{"test"}, Mode: "enforce"})))},
			target:   db, policy: "a", mode: "log"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var before []*v1alpha1.Kausality
			for _, p := range tc.policies {
				before = append(before, p.DeepCopy())
			}
			set, errs := Compile(tc.policies)
			if len(errs) > 0 {
				t.Fatalf("Compile: %v", errs)
			}
			got := set.For(tc.target)
			if got.Policy != tc.policy || got.Mode != tc.mode {
				t.Errorf("%s\nwant %q %q, got %q %q", tc.reason, tc.policy, tc.mode, got.Policy, got.Mode)
			}
			if diff := cmp.Diff(before, tc.policies); diff != "" {
				t.Errorf("the policies were modified: %s", diff)
			}
		})
	}
}

// TestFreezes: each policy freezes what it covers, whichever is the most specific (KR-14-34).
func TestFreezes(t *testing.T) {
	freeze := func(s *v1alpha1.KausalitySpec) { s.Freeze = &v1alpha1.Freeze{} }
	cases := map[string]struct {
		reason   string
		policies []*v1alpha1.Kausality
		want     []string
	}{
		"None": {reason: "none has a freeze", policies: []*v1alpha1.Kausality{policy("a", nil)}},
		"One":  {reason: "that of the policy", policies: []*v1alpha1.Kausality{policy("a", freeze)}, want: []string{"a"}},
		"LessSpecific": {reason: "a more specific policy is no exemption",
			policies: []*v1alpha1.Kausality{policy("a", named("prod")), policy("z", freeze)}, want: []string{"z"}},
		"Both": {reason: "in the order of their names", policies: []*v1alpha1.Kausality{policy("z", freeze), policy("a", with(named("prod"), freeze))},
			want: []string{"a", "z"}},
		"Elsewhere": {reason: "of what it covers alone", policies: []*v1alpha1.Kausality{policy("a", nil), policy("z", with(named("test"), freeze))}},
		"Overrides": {reason: "once, with overrides of its mode", policies: []*v1alpha1.Kausality{policy("a", with(freeze,
			mode("log", v1alpha1.ModeOverride{Namespaces: []string{"prod"}, Mode: "enforce"})))}, want: []string{"a"}},
		"TraceOnly": {reason: "a policy that decides nothing", policies: []*v1alpha1.Kausality{policy("a", with(freeze,
			func(s *v1alpha1.KausalitySpec) { s.TraceOnly = true }))}},
	}
	for name, tc := range cases {
		set, _ := Compile(tc.policies)
		var got []string
		for _, f := range set.For(db).Freezes {
			got = append(got, f.Policy)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s: -want, +got:\n%s", name, tc.reason, diff)
		}
	}
}

// TestNamespaceOf: an empty freeze is not an absent one.
func TestNamespaceOf(t *testing.T) {
	for name, tc := range map[string]struct {
		in     map[string]string
		frozen bool
	}{
		"None": {}, "Empty": {in: map[string]string{v1alpha1.AnnotationKeyFreeze: ""}, frozen: true},
		"True": {in: map[string]string{v1alpha1.AnnotationKeyFreeze: "true"}, frozen: true},
	} {
		if got := NamespaceOf(tc.in, nil, false); (got.Freeze != "") != tc.frozen {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestOrderOfPolicies: in whatever order they are read, the same one holds.
func TestOrderOfPolicies(t *testing.T) {
	all := []*v1alpha1.Kausality{policy("a", nil), policy("b", named("prod")), policy("c", with(named("prod"), resources("example.org", "databases"))),
		policy("d", selected("env", "prod")), policy("e", with(named("prod"), resources("example.org", "databases")))}
	rapid.Check(t, func(t *rapid.T) {
		set, _ := Compile(rapid.Permutation(all).Draw(t, "order"))
		if got := set.For(db).Policy; got != "c" {
			t.Fatalf("want c, got %s", got)
		}
	})
}

func TestBadSelector(t *testing.T) {
	bad := policy("bad", func(s *v1alpha1.KausalitySpec) {
		s.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	})
	set, errs := Compile([]*v1alpha1.Kausality{bad, policy("good", nil)})
	if errs["bad"] == nil || len(errs) != 1 {
		t.Errorf("want one error, for bad, got %v", errs)
	}
	if got := set.For(db).Policy; got != "good" {
		t.Errorf("a policy that cannot be understood must not take the others with it, got %q", got)
	}
}

func TestSettings(t *testing.T) {
	set, _ := Compile([]*v1alpha1.Kausality{
		policy("a", func(s *v1alpha1.KausalitySpec) {
			s.OtherActors = v1alpha1.OtherActorsRequireApproval
			s.Gate = &v1alpha1.GateSettings{Closed: []v1alpha1.Verb{"Observe", "LateInitialize"}, Deadline: &metav1.Duration{Duration: time.Minute}}
			s.Lifecycle = []v1alpha1.LifecycleRule{{APIGroup: "example.org", Kind: "Database", Initialized: []string{"Provisioned"}}}
		}),
		policy("b", func(s *v1alpha1.KausalitySpec) {
			s.Lifecycle = []v1alpha1.LifecycleRule{{APIGroup: "example.org", Kind: "Database", Initialized: []string{"Other"}}}
		}),
	})
	got := set.For(db)
	if !got.RequireApproval || !got.HasCloseTo || len(got.CloseTo) != 1 || got.CloseTo[0] != "LateInitialize" || got.Deadline != time.Minute {
		t.Errorf("got %+v", got)
	}
	if i := set.Initialized("example.org", "Database"); len(i) != 1 || i[0] != "Provisioned" {
		t.Errorf("the first policy by name decides, got %v", i)
	}
	if i := set.Initialized("example.org", "Cache"); i != nil {
		t.Errorf("no policy is about Cache, got %v", i)
	}
}

func TestRelevant(t *testing.T) {
	set, _ := Compile([]*v1alpha1.Kausality{policy("a", func(s *v1alpha1.KausalitySpec) {
		s.Gate = &v1alpha1.GateSettings{IgnorePaths: []string{"spec.forProvider.tags", "spec.forProvider.rules[*].id"}}
	})})
	cases := map[string]bool{
		"spec.forProvider.tags": false, "spec.forProvider.tags.team": false, "spec.forProvider.tags[a.b]": false,
		"spec.forProvider.tagsOfOthers": true, "spec.forProvider.size": true, "exists": true,
		"spec.forProvider.rules[0].id": false, "spec.forProvider.rules.first.id": false, "spec.forProvider.rules[0].port": true,
		"spec.forProvider.rules[0].nested.id": true,
	}
	for path, want := range cases {
		if got := len(set.For(db).Relevant([]change.Change{{Path: path}})) == 1; got != want {
			t.Errorf("%s: relevant %v, want %v", path, got, want)
		}
	}
	all := []change.Change{{Path: "spec.forProvider.tags"}}
	if got := (Settings{}).Relevant(all); len(got) != 1 {
		t.Errorf("without a policy nothing is ignored, got %v", got)
	}
}

// TestIgnoredPathsOldSpellings: what older versions ignored by comparing texts
// is ignored still, and the spellings of AllowancePolicies are understood, too.
func TestIgnoredPathsOldSpellings(t *testing.T) {
	cases := map[string]struct {
		reason  string
		ignored string
		covers  []string
		not     []string
	}{
		"QuoteInKey":   {reason: "a quote in a key is a part of it", ignored: ".tags[it's]", covers: []string{".tags[it's]"}, not: []string{".tags.its"}},
		"BracketInKey": {reason: "so is an opening bracket", ignored: ".tags[a[b]", covers: []string{".tags[a[b]"}},
		"EmptyKey":     {reason: "the empty key", ignored: ".tags[]", covers: []string{".tags[]"}, not: []string{".tags.a"}},
		"QuotesOfKey":  {reason: "quotes around a key are none of it, and were", ignored: `.tags["a.b"]`, covers: []string{`.tags[a.b]`, `.tags["a.b"]`}},
		"Index":        {reason: "an index is no key", ignored: ".rules[2]", covers: []string{".rules[2].id"}, not: []string{".rules.2.id"}},
		"NumberedKey":  {reason: "and a key no index", ignored: ".rules.2", covers: []string{".rules.2.id"}, not: []string{".rules[2].id"}},
		"StarAsName":   {reason: "a star after a period is any step", ignored: ".rules.*.id", covers: []string{".rules[0].id", ".rules.a.id"}},
		"NotAPath":     {reason: "what is no path ignores nothing", ignored: "..", not: []string{"", ".tags"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set, _ := Compile([]*v1alpha1.Kausality{policy("a", func(s *v1alpha1.KausalitySpec) {
				s.Gate = &v1alpha1.GateSettings{IgnorePaths: []string{"spec.forProvider" + tc.ignored}}
			})})
			relevant := func(path string) bool {
				return len(set.For(db).Relevant([]change.Change{{Path: "spec.forProvider" + path}})) == 1
			}
			for _, p := range tc.covers {
				if relevant(p) {
					t.Errorf("%s: %s is not ignored", tc.reason, p)
				}
			}
			for _, p := range tc.not {
				if !relevant(p) {
					t.Errorf("%s: %s is ignored", tc.reason, p)
				}
			}
		})
	}
}

// TestIgnoredPathsAsBefore: a path and a pattern that older versions matched by a
// regular expression over their texts match still.
func TestIgnoredPathsAsBefore(t *testing.T) {
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SampledFrom([]string{"a", "b", "a.b", "it's", `"a"`, "x[y", "", "2", "*", "a b", "a*"})
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) change.Segment {
			if rapid.Bool().Draw(t, "item") {
				return change.Segment{Item: true, Index: rapid.IntRange(0, 3).Draw(t, "index")}
			}
			return change.Segment{Key: keys.Draw(t, "key")}
		}), 1, 4)
		path := steps.Draw(t, "path")
		pattern := path[:rapid.IntRange(1, len(path)).Draw(t, "length")]
		if rapid.Bool().Draw(t, "other") {
			pattern = steps.Draw(t, "pattern")
		}
		text, at := "spec.forProvider"+below(pattern), "spec.forProvider"+below(path)
		if !oldPattern(text).MatchString(at) {
			return
		}
		matched++
		if ignored([]string{text}).Covers(change.SplitPath(at)) == 0 {
			t.Errorf("%q does not cover %q any more", text, at)
		}
	})
	if matched == 0 {
		t.Error("no pattern matched")
	}
}

func below(path []change.Segment) string {
	return strings.TrimPrefix(change.Text(append([]change.Segment{{Key: "x"}}, path...)), "x")
}

// oldPattern is how older versions matched a path and everything below it.
func oldPattern(path string) *regexp.Regexp {
	const anyStep = `(?:\[[^\]]*\]|\.[^.\[]+)`
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(path), `\[\*\]`, anyStep) + `(?:[.\[]|$)`)
}
