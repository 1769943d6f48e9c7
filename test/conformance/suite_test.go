package conformance

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A mistake in a scenario is reported when it is read.
func TestLoadIsStrict(t *testing.T) {
	const head = "scenarios:\n- name: A\n  rules: [KR-04-01]\n  reason: because\n"
	const step = "  steps:\n  - {as: hans, create: {kind: App, name: app}, expect: {allowed: true}}\n"
	one := func(step string) string { return head + "  steps:\n  - " + step + "\n" }
	cases := map[string]struct {
		text string
		// want is part of the error; empty for none.
		want string
	}{
		"Fine":               {text: head + step, want: ""},
		"UnknownField":       {text: head + "  wishes: [a]\n" + step, want: "wishes"},
		"UnknownStepField":   {text: one("{as: hans, create: {kind: App}, expekt: {allowed: true}}"), want: "expekt"},
		"UnknownExpectation": {text: one("{as: hans, create: {kind: App}, expect: {verdict: true}}"), want: "verdict"},
		"UnknownMatcher":     {text: one("{check: {object: App/app, annotations: {trace: {hops: 2}}}}"), want: "hops"},
		"UnknownActorField":  {text: one("{as: {usr: hans}, create: {kind: App}, expect: {}}"), want: "usr"},
		"TwoMatchers":        {text: one("{check: {object: App/app, annotations: {trace: {absent: true, same: true}}}}"), want: "one field, not 2"},
		"NullMatcher":        {text: one("{check: {object: App/app, annotations: {trace: null}}}"), want: "matcher is missing"},
		"NoCheck":            {text: one("{as: hans, create: {kind: App, name: app}}"), want: "checks nothing"},
		"NoSteps":            {text: head, want: "checks nothing"},
		"NoReason":           {text: "scenarios:\n- name: A\n  rules: [KR-04-01]\n" + step, want: "no reason"},
		"NoRules":            {text: "scenarios:\n- name: A\n  reason: because\n" + step, want: "no rules"},
		"NoRule":             {text: strings.Replace(head, "KR-04-01", "drift", 1) + step, want: `"drift" is not the id of a rule`},
		"NoName":             {text: "scenarios:\n- rules: [KR-04-01]\n  reason: because\n" + step, want: "no name"},
		"NameOfTwoWords":     {text: strings.Replace(head, "name: A", "name: A B", 1) + step, want: "one word"},
		"Twice":              {text: head + step + strings.TrimPrefix(head, "scenarios:\n") + step, want: "twice"},
		"DuplicateKey":       {text: head + "  reason: and because\n" + step, want: "already"},
		"UnknownActor":       {text: one("{as: stranger, create: {kind: App}, expect: {allowed: true}}"), want: `actor "stranger" is not defined`},
		"UnknownSetup":       {text: head + "  setup: [nothing]\n" + step, want: `setup "nothing" is not defined`},
		"UnknownUse":         {text: head + "  steps:\n  - {use: nothing}\n  - {check: {object: App/app}}\n", want: `setup "nothing" is not defined`},
		"NoActor":            {text: one("{create: {kind: App}, expect: {allowed: true}}"), want: "name the actor"},
		"TwoVerbs":           {text: one("{as: hans, create: {kind: App}, apply: {kind: App}, expect: {allowed: true}}"), want: "does one thing"},
		"NoVerb":             {text: one("{as: hans, expect: {allowed: true}}"), want: "does one thing"},
		"PatchOfBothKinds":   {text: one("{as: hans, patch: {of: App/app, merge: {}, json: []}, expect: {allowed: true}}"), want: "either merge or json"},
		"AllowedWithReason":  {text: one("{as: hans, create: {kind: App}, expect: {allowed: true, reason: Drift}}"), want: "has no reason"},
		"RefusedWithObject":  {text: one("{as: hans, create: {kind: App}, expect: {code: 403, fields: {a: 1}}}"), want: "returns no object"},
		"CheckOfNothing":     {text: one("{check: {within: 1s}}"), want: "a check is about"},
		"CheckWithActor":     {text: one("{as: hans, check: {object: App/app}}"), want: "is alone"},
		"LooksOfTheAbsent":   {text: one("{check: {object: App/app, exists: false, fields: {a: 1}}}"), want: "has no annotations"},
		"UserAndAccount":     {text: one("{as: {user: a, serviceAccount: b/c}, create: {kind: App}, expect: {allowed: true}}"), want: "not both"},
		"Table": {
			text: head + "  each: {A: {col: a}, B: {col: b, reason: for its own}}\n" +
				"  steps:\n  - {as: hans, create: {kind: App, name: $(col)}, expect: {allowed: true}}\n",
			want: "",
		},
		"TableOfOneRow":  {text: head + "  each: {A: {col: a}}\n" + step, want: "at least two rows"},
		"TableWithAHole": {text: head + "  each: {A: {col: a}, B: {m: b}}\n" + step, want: "row A has the columns [col], row B has [m]"},
		"TableFillsNonsense": {
			text: head + "  each: {A: {col: a}, B: {col: b}}\n  steps:\n  - {as: hans, create: {kind: App}, expect: $(col)}\n",
			want: "cannot unmarshal",
		},
		"DurationWithoutUnit": {text: one("{check: {object: App/app, within: 5}}"), want: "string"},
	}
	fixtures := "kinds: {App: {apiVersion: example.org/v1}}\nactors: {hans: {user: hans}}\nsetups: {}\n"
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Load(fstest.MapFS{"fixtures.yaml": {Data: []byte(fixtures)}, "scenarios/a.yaml": {Data: []byte(tc.text)}})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want an error with %q, got %v", tc.want, err)
			}
		})
	}
}

// aboutPolicies are the files about policies.
var aboutPolicies = map[string]bool{"allowances": true, "allowance_phases": true, "allowance_external": true,
	"policy_validation": true, "approval_policies": true, "upgrades": true}

// The suite loads, has the promised size, and covers each configuration.
func TestSuite(t *testing.T) {
	s, err := Load(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Scenarios); n < 150 {
		t.Errorf("%d scenarios, want at least 150", n)
	}
	policies := 0
	seen := map[string]int{}
	for _, sc := range s.Scenarios {
		if aboutPolicies[sc.File] {
			policies++
		}
		seen[sc.In()]++
		if _, ok := configurations[sc.In()]; !ok {
			t.Errorf("scenario %s needs configuration %s, which is not installed", sc.ID(), sc.In())
		}
	}
	if policies < 80 {
		t.Errorf("%d scenarios are about policies, want at least 80", policies)
	}
	for name := range configurations {
		if seen[name] == 0 {
			t.Errorf("no scenario needs configuration %s", name)
		}
	}
}

// decidedInRequests are the sections of docs/specification.md whose rules show at
// the API server, so that each has a scenario here. Other sections are tested
// elsewhere; docs/rules.md lists where.
var decidedInRequests = regexp.MustCompile(`^KR-0[1-7]-`)

// notInScenarios are rules of these sections that no request can show, each with
// the reason.
var notInScenarios = map[string]string{
	"KR-03-06": "which replica writes does not show in an answer",
	"KR-03-07": "scenarios run with a short --settle-grace",
	"KR-04-17": "no request shows how many writes there were",
	"KR-04-18": "no request shows how many writes there were",
	"KR-07-11": "no Crossplane runs in a scenario",
	"KR-07-12": "no provider of an old runtime runs in a scenario",
	"KR-04-15": "the users of components are those of an installation",
	"KR-07-15": "an author is late by a moment, which no request shows",
	"KR-05-20": "no request makes a watch lag",
	"KR-05-58": "the function alone knows since when it holds a change",
	"KR-05-59": "the function alone records what it held before an intent",
	"KR-06-32": "policies are derived by a command: TestDerivedPolicies of test/webhook",
	"KR-06-33": "policies are tested by a command: TestDerivedPolicies of test/webhook",
	"KR-05-36": "it takes a process that ends, or 30 seconds",
}

// Each rule that shows at the API server has a scenario, and no scenario is about
// a rule that does not exist.
func TestRulesAreCovered(t *testing.T) {
	page, err := os.ReadFile("../../docs/specification.md")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	about := map[string]bool{}
	for _, sc := range s.Scenarios {
		for _, rule := range sc.Rules {
			about[rule] = true
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\*\*(KR-\d\d-\d\d)\*\* `).FindAllSubmatch(page, -1) {
		rule := string(m[1])
		if decidedInRequests.MatchString(rule) && !about[rule] && notInScenarios[rule] == "" {
			t.Errorf("no scenario is about %s", rule)
		}
		delete(about, rule)
	}
	for rule := range about {
		t.Errorf("scenarios are about %s, which is not in docs/specification.md", rule)
	}
}

func TestUserHash(t *testing.T) {
	for user, want := range map[string]string{"hans@example.com": "6boq4", "system:serviceaccount:apps:app-controller": "3kyct"} {
		if got := userHash(user); got != want {
			t.Errorf("%s: want %s, got %s", user, want, got)
		}
	}
}

// A known defect that is fixed fails, so that the field cannot go stale.
func TestJudge(t *testing.T) {
	wrong := errors.New("spec.count is 2, want 3")
	cases := map[string]struct {
		defect string
		err    error
		want   Verdict
		why    string
	}{
		"Passed": {want: Passed},
		"Failed": {err: wrong, want: Failed, why: "want 3"},
		"Known":  {defect: "it counts wrongly", err: wrong, want: Defective, why: "it counts wrongly"},
		"Fixed":  {defect: "it counts wrongly", want: Failed, why: "remove knownDefect"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sc := &Scenario{KnownDefect: tc.defect}
			if got, why := sc.Judge(tc.err); got != tc.want || !strings.Contains(why, tc.why) {
				t.Errorf("want %s with %q, got %s: %s", tc.want, tc.why, got, why)
			}
		})
	}
}

func TestAt(t *testing.T) {
	tree := map[string]any{"a": map[string]any{"b.c/d": "x", "list": []any{map[string]any{"n": 1.0}}}}
	cases := map[string]string{
		"a[b.c/d]": "x", "a.list[0].n": "1", "len(a.list)": "1", "len(a.none)": "0",
		"a.list[1]": "absent", "a.none": "absent", "a[b.c/d].e": "absent",
	}
	for path, want := range cases {
		if got := at(tree, path).String(); got != want {
			t.Errorf("%s: want %s, got %s", path, want, got)
		}
	}
}

// A row fills its columns in, whole values and parts of strings, and leaves other
// variables as they are.
func TestRows(t *testing.T) {
	sc := Scenario{File: "f", Name: "N", Reason: "all", Each: map[string]map[string]any{
		"B": {"who": "hans", "spec": map[string]any{"a": 1.0}},
		"A": {"who": "alice", "spec": []any{"$(ns)"}, "reason": "its own"},
	}, Steps: []map[string]any{{"as": "$(who)", "create": map[string]any{"spec": "$(spec)", "name": "of-$(who)-$(ns)"}}}}
	rows, err := sc.rows()
	if err != nil || len(rows) != 2 {
		t.Fatal(rows, err)
	}
	create := func(as string, spec any) []map[string]any {
		return []map[string]any{{"as": as, "create": map[string]any{"spec": spec, "name": "of-" + as + "-$(ns)"}}}
	}
	want := []Scenario{
		{File: "f", Name: "N.A", Reason: "its own", Steps: create("alice", []any{"$(ns)"})},
		{File: "f", Name: "N.B", Reason: "all", Steps: create("hans", map[string]any{"a": 1.0})},
	}
	if !reflect.DeepEqual(want, rows) {
		t.Errorf("want %v, got %v", want, rows)
	}
	if sc.Each["A"]["reason"] != "its own" || sc.Steps[0]["as"] != "$(who)" {
		t.Error("the table itself was modified")
	}
}

func TestCopies(t *testing.T) {
	crd := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "govs.example.org", "annotations": map[string]any{copiedAnnotation: "true"}},
		"spec":     map[string]any{"names": map[string]any{"kind": "Gov", "plural": "govs"}},
	}}
	all, err := copies(crd)
	if err != nil || len(all) != Copies {
		t.Fatal(all, err)
	}
	names, _, err := unstructured.NestedStringMap(all[2].Object, "spec", "names")
	if err != nil || all[2].GetName() != "govs3.example.org" || names["kind"] != "Gov3" || names["plural"] != "govs3" {
		t.Errorf("%s: %v, %v", all[2].GetName(), names, err)
	}
	crd.SetAnnotations(nil)
	if all, err = copies(crd); err != nil || len(all) != 1 || all[0] != crd {
		t.Errorf("a CRD that is not marked is unchanged: %v, %v", all, err)
	}
}

// The later webhook returns the patch in the annotation of an object, nothing else.
func TestAnswerLater(t *testing.T) {
	review := func(annotations string) string {
		return `{"request": {"uid": "u", "object": {"metadata": {"annotations": {` + annotations + `}}}}}`
	}
	cases := map[string]struct {
		raw string
		// want is the response; empty for an error.
		want string
	}{
		"Patch":     {raw: review(`"` + LaterLabel + `": "[]"`), want: `{"uid":"u","allowed":true,"patchType":"JSONPatch","patch":"W10="}`},
		"Nothing":   {raw: review(""), want: `{"uid":"u","allowed":true}`},
		"NoRequest": {raw: `{}`},
		"NoJSON":    {raw: `[`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := answerLater([]byte(tc.raw))
			if (err != nil) != (tc.want == "") {
				t.Fatal(got, err)
			}
			var want map[string]any
			if err == nil && (json.Unmarshal([]byte(tc.want), &want) != nil || text(want) != text(got["response"])) {
				t.Errorf("want %s, got %s", tc.want, text(got["response"]))
			}
		})
	}
}
