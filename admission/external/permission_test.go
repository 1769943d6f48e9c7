package external

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	create = v1alpha1.VerbCreate
	update = v1alpha1.VerbUpdate
	remove = v1alpha1.VerbDelete
)

func TestParsePermissions(t *testing.T) {
	cases := map[string]struct {
		reason, in string
		want       []Permission
		err        string
	}{
		"None":  {reason: "no annotation"},
		"Empty": {reason: "an empty list", in: "[]"},
		"Current": {reason: "JSON as we write it",
			in: `[{"relation":"External","verbs":["apply"],"externalTarget":{"resource":"aws_rds_cluster"},"generation":4,"initiator":"hans",` +
				`"trace":[{"kind":"XDatabase","name":"orders"},{"kind":"Workspace","name":"w"}]}]`,
			want: []Permission{{Verbs: []string{"apply"}, Target: map[string]string{"resource": "aws_rds_cluster"}, Generation: 4,
				Initiator: "hans", Origin: "XDatabase/orders"}}},
		"YAML": {reason: "and YAML, of others nothing",
			in:   "- relation: ControllerChild\n  verbs: [Update]\n  mutations: [{jsonPath: spec.size, verbs: [Mutate]}]\n- relation: External\n  verbs: ['*']\n",
			want: []Permission{{Verbs: []string{"*"}}}},
		"Older": {reason: "verbs in mutations", in: `[{"relation":"External","mutations":["Update"]}]`,
			want: []Permission{{Verbs: []string{"Update"}}}},
		"Oldest": {reason: "and in mutation", in: `[{"relation":"External","mutation":"destroy"}]`,
			want: []Permission{{Verbs: []string{"destroy"}}}},
		"NoVerbs":   {reason: "permits nothing, and is no error", in: `[{"relation":"External"}]`, want: []Permission{{}}},
		"Unrelated": {reason: "no relation is ControllerChild", in: `[{"kind":"Pod","verbs":["*"]}]`},
		"Paths": {reason: "paths of an external system are not understood",
			in: `[{"relation":"External","mutations":[{"jsonPath":"spec.size"}]}]`, err: "entry 0"},
		"NoList":  {reason: "an object", in: `{"relation":"External"}`, err: "cannot parse allowances"},
		"Garbage": {reason: "no YAML", in: "[", err: "cannot parse allowances"},
		"BadTarget": {reason: "a target that is no text", in: `[{"relation":"External","externalTarget":{"a":{"b":1}}}]`,
			err: "cannot parse allowances"},
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

// TestPermits covers KR-08-40.
func TestPermits(t *testing.T) {
	target := map[string]string{"resource": "aws_db_instance", "address": `module.m["a"].aws_db_instance.orders[0]`, "module": ""}
	cases := map[string]struct {
		reason string
		p      Permission
		verb   v1alpha1.Verb
		system verb.System
		want   bool
	}{
		"Any":         {reason: "no target is every target", p: Permission{Verbs: []string{"apply"}}, verb: update, want: true},
		"OtherVerb":   {reason: "apply destroys nothing", p: Permission{Verbs: []string{"apply"}}, verb: remove},
		"SecondVerb":  {reason: "any of them", p: Permission{Verbs: []string{"apply", "destroy"}}, verb: remove, want: true},
		"NoVerb":      {reason: "none permits nothing", p: Permission{}, verb: update},
		"UnknownVerb": {reason: "nor one that is unknown", p: Permission{Verbs: []string{"Apply"}}, verb: update},
		"Observe":     {reason: "looking is no permission", p: Permission{Verbs: []string{"Observe"}}, verb: update},
		"OtherSystem": {reason: "destroy is no verb of Argo CD", p: Permission{Verbs: []string{"destroy"}}, verb: remove, system: verb.ArgoCD},
		"Target": {reason: "it fits",
			p: Permission{Verbs: []string{"*"}, Target: map[string]string{"resource": "aws_db_instance"}}, verb: update, want: true},
		"OtherTarget": {reason: "it does not", p: Permission{Verbs: []string{"*"}, Target: map[string]string{"resource": "aws_db"}},
			verb: update},
		"AllKeys": {reason: "every key must fit",
			p: Permission{Verbs: []string{"*"}, Target: map[string]string{"resource": "aws_db_instance", "address": "x"}}, verb: update},
		"UnknownKey": {reason: "a key that no target has fits nothing",
			p: Permission{Verbs: []string{"*"}, Target: map[string]string{"kind": "*"}}, verb: update},
		"EmptyValue": {reason: "the root module", p: Permission{Verbs: []string{"*"}, Target: map[string]string{"module": ""}},
			verb: update, want: true},
		"Brackets": {reason: "brackets are text",
			p: Permission{Verbs: []string{"*"}, Target: map[string]string{"address": `module.m["*"].aws_db_instance.orders[*]`}}, verb: update,
			want: true},
		"CaseMatters": {reason: "as in Terraform",
			p: Permission{Verbs: []string{"*"}, Target: map[string]string{"resource": "AWS_db_instance"}}, verb: update},
		"EmptyPattern": {reason: "an empty value is not any",
			p: Permission{Verbs: []string{"*"}, Target: map[string]string{"resource": ""}}, verb: update},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.p.Permits(tc.system, tc.verb, target); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
	if diff := cmp.Diff([]string{"kind", "zone"}, UnknownKeys([]Permission{{Target: map[string]string{"zone": "", "module": ""}},
		{Target: map[string]string{"kind": ""}}}, PlanTargetKeys)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{pattern: "a", text: "a", want: true}, {pattern: "a", text: "ab"}, {pattern: "*", want: true}, {pattern: "*", text: "abc",
			want: true}, {pattern: "a*", text: "abc", want: true}, {pattern: "*c", text: "abc",
			want: true}, {pattern: "a*c",
			text: "abc", want: true},
		{pattern: "a*c", text: "ac", want: true}, {pattern: "aa*aa", text: "aaa"}, {pattern: "a*b*c", text: "axbyc",
			want: true}, {pattern: "a*b*c", text: "acb"}, {pattern: "*b*b*",
			text: "abc"}, {pattern: "**",
			text: "x", want: true}, {want: true}, {text: "a"},
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
