package external

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	create = v1alpha1.VerbCreate
	update = v1alpha1.VerbUpdate
	remove = v1alpha1.VerbDelete
)

// The vocabulary of KR-06-11.
func TestVerbs(t *testing.T) {
	for verb, want := range map[string][]v1alpha1.Verb{
		"apply": {create, update}, "destroy": {remove}, "sync": {create, update}, "delete": {remove}, "*": {create, update, remove},
		"Create": {create}, "Update": {update}, "Delete": {remove}, "Observe": nil, "LateInitialize": nil, "Apply": nil, "": nil,
	} {
		if diff := cmp.Diff(want, Verbs(verb)); diff != "" {
			t.Errorf("%q: -want, +got:\n%s", verb, diff)
		}
	}
}

func TestParsePermissions(t *testing.T) {
	cases := map[string]struct {
		reason, in string
		want       []Permission
		err        string
	}{
		"None":  {"no annotation", "", nil, ""},
		"Empty": {"an empty list", "[]", nil, ""},
		"Current": {"JSON as we write it", `[{"relation":"External","verbs":["apply"],"externalTarget":{"resource":"aws_rds_cluster"},"generation":4,"initiator":"hans","trace":[{"kind":"XDatabase","name":"orders"},{"kind":"Workspace","name":"w"}]}]`,
			[]Permission{{Verbs: []string{"apply"}, Target: map[string]string{"resource": "aws_rds_cluster"}, Generation: 4, Initiator: "hans", Origin: "XDatabase/orders"}}, ""},
		"YAML":      {"and YAML, of others nothing", "- relation: ControllerChild\n  verbs: [Update]\n  mutations: [{jsonPath: spec.size, verbs: [Mutate]}]\n- relation: External\n  verbs: ['*']\n", []Permission{{Verbs: []string{"*"}}}, ""},
		"Older":     {"verbs in mutations", `[{"relation":"External","mutations":["Update"]}]`, []Permission{{Verbs: []string{"Update"}}}, ""},
		"Oldest":    {"and in mutation", `[{"relation":"External","mutation":"destroy"}]`, []Permission{{Verbs: []string{"destroy"}}}, ""},
		"NoVerbs":   {"permits nothing, and is no error", `[{"relation":"External"}]`, []Permission{{}}, ""},
		"Unrelated": {"no relation is ControllerChild", `[{"kind":"Pod","verbs":["*"]}]`, nil, ""},
		"Paths":     {"paths of an external system are not understood", `[{"relation":"External","mutations":[{"jsonPath":"spec.size"}]}]`, nil, "entry 0"},
		"NoList":    {"an object", `{"relation":"External"}`, nil, "cannot parse allowances"},
		"Garbage":   {"no YAML", "[", nil, "cannot parse allowances"},
		"BadTarget": {"a target that is no text", `[{"relation":"External","externalTarget":{"a":{"b":1}}}]`, nil, "cannot parse allowances"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParsePermissions(tc.in)
			if (tc.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("%s: error %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func FuzzParsePermissions(f *testing.F) {
	f.Add(`[{"relation":"External","verbs":["apply"]}]`)
	f.Add("- relation: External\n  mutations: [Update]")
	f.Fuzz(func(t *testing.T, value string) {
		got, err := ParsePermissions(value)
		if err != nil && got != nil {
			t.Errorf("an error and permissions: %v", got)
		}
	})
}

func TestUnconsumed(t *testing.T) {
	in := []Permission{{Generation: 3}, {Generation: 4}, {Generation: 5}, {}}
	before := slices.Clone(in)
	if diff := cmp.Diff([]Permission{{Generation: 5}, {}}, Unconsumed(in, 4)); diff != "" {
		t.Errorf("settled at 4: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(in, Unconsumed(in, 0)); diff != "" {
		t.Errorf("never settled: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(before, in); diff != "" {
		t.Errorf("input modified:\n%s", diff)
	}
}

func TestPermits(t *testing.T) {
	target := map[string]string{"resource": "aws_db_instance", "address": `module.m["a"].aws_db_instance.orders[0]`, "module": ""}
	cases := map[string]struct {
		reason string
		p      Permission
		verb   v1alpha1.Verb
		want   bool
	}{
		"Any":          {"no target is every target", Permission{Verbs: []string{"apply"}}, update, true},
		"OtherVerb":    {"apply destroys nothing", Permission{Verbs: []string{"apply"}}, remove, false},
		"SecondVerb":   {"any of them", Permission{Verbs: []string{"apply", "destroy"}}, remove, true},
		"NoVerb":       {"none permits nothing", Permission{}, update, false},
		"UnknownVerb":  {"nor one that is unknown", Permission{Verbs: []string{"Apply"}}, update, false},
		"Observe":      {"looking is no permission", Permission{Verbs: []string{"Observe"}}, update, false},
		"Target":       {"it fits", Permission{Verbs: []string{"*"}, Target: map[string]string{"resource": "aws_db_instance"}}, update, true},
		"OtherTarget":  {"it does not", Permission{Verbs: []string{"*"}, Target: map[string]string{"resource": "aws_db"}}, update, false},
		"AllKeys":      {"every key must fit", Permission{Verbs: []string{"*"}, Target: map[string]string{"resource": "aws_db_instance", "address": "x"}}, update, false},
		"UnknownKey":   {"a key that no target has fits nothing", Permission{Verbs: []string{"*"}, Target: map[string]string{"kind": "*"}}, update, false},
		"EmptyValue":   {"the root module", Permission{Verbs: []string{"*"}, Target: map[string]string{"module": ""}}, update, true},
		"Brackets":     {"brackets are text", Permission{Verbs: []string{"*"}, Target: map[string]string{"address": `module.m["*"].aws_db_instance.orders[*]`}}, update, true},
		"CaseMatters":  {"as in Terraform", Permission{Verbs: []string{"*"}, Target: map[string]string{"resource": "AWS_db_instance"}}, update, false},
		"EmptyPattern": {"an empty value is not any", Permission{Verbs: []string{"*"}, Target: map[string]string{"resource": ""}}, update, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.p.Permits(tc.verb, target); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
	if diff := cmp.Diff([]string{"kind", "zone"}, UnknownKeys([]Permission{{Target: map[string]string{"zone": "", "module": ""}}, {Target: map[string]string{"kind": ""}}}, PlanTargetKeys)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"*", "", true}, {"*", "abc", true}, {"a*", "abc", true}, {"*c", "abc", true}, {"a*c", "abc", true},
		{"a*c", "ac", true}, {"aa*aa", "aaa", false}, {"a*b*c", "axbyc", true}, {"a*b*c", "acb", false}, {"*b*b*", "abc", false}, {"**", "x", true}, {"", "", true}, {"", "a", false},
	} {
		if got := glob(tc.pattern, tc.text); got != tc.want {
			t.Errorf("glob(%q, %q) = %t", tc.pattern, tc.text, got)
		}
	}
	// A text with some of its parts replaced by * fits.
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.StringMatching(`[ab]{0,3}`), 1, 6).Draw(t, "parts")
		pattern := make([]string, len(parts))
		for i, p := range parts {
			pattern[i] = p
			if rapid.Bool().Draw(t, "star") {
				pattern[i] = "*"
			}
		}
		if !glob(strings.Join(pattern, ""), strings.Join(parts, "")) {
			t.Fatalf("%v does not fit %v", pattern, parts)
		}
	})
}
