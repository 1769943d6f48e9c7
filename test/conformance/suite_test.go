package conformance

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What is wrong with a scenario is found when it is read, and named.
func TestLoadIsStrict(t *testing.T) {
	const head = "scenarios:\n- name: A\n  spec: \"4\"\n  reason: because\n"
	const step = "  steps:\n  - {as: hans, create: {kind: App, name: app}, expect: {allowed: true}}\n"
	cases := map[string]struct{ text, want string }{
		"Fine":                {head + step, ""},
		"UnknownField":        {head + "  wishes: [a]\n" + step, "wishes"},
		"UnknownStepField":    {head + "  steps:\n  - {as: hans, create: {kind: App}, expekt: {allowed: true}}\n", "expekt"},
		"UnknownExpectation":  {head + "  steps:\n  - {as: hans, create: {kind: App}, expect: {verdict: true}}\n", "verdict"},
		"UnknownMatcher":      {head + "  steps:\n  - {check: {object: App/app, annotations: {trace: {hops: 2}}}}\n", "hops"},
		"UnknownActorField":   {head + "  steps:\n  - {as: {usr: hans}, create: {kind: App}, expect: {}}\n", "usr"},
		"TwoMatchers":         {head + "  steps:\n  - {check: {object: App/app, annotations: {trace: {absent: true, same: true}}}}\n", "one field, not 2"},
		"NullMatcher":         {head + "  steps:\n  - {check: {object: App/app, annotations: {trace: null}}}\n", "matcher is missing"},
		"NoCheck":             {head + "  steps:\n  - {as: hans, create: {kind: App, name: app}}\n", "checks nothing"},
		"NoSteps":             {head, "checks nothing"},
		"NoReason":            {"scenarios:\n- name: A\n  spec: \"4\"\n" + step, "no reason"},
		"NoSpec":              {"scenarios:\n- name: A\n  reason: because\n" + step, "no spec"},
		"NoName":              {"scenarios:\n- spec: \"4\"\n  reason: because\n" + step, "no name"},
		"NameOfTwoWords":      {strings.Replace(head, "name: A", "name: A B", 1) + step, "one word"},
		"Twice":               {head + step + strings.TrimPrefix(head, "scenarios:\n") + step, "twice"},
		"DuplicateKey":        {head + "  reason: and because\n" + step, "already"},
		"UnknownActor":        {head + "  steps:\n  - {as: nobody, create: {kind: App}, expect: {allowed: true}}\n", `no actor "nobody"`},
		"UnknownSetup":        {head + "  setup: [nothing]\n" + step, `no setup "nothing"`},
		"UnknownUse":          {head + "  steps:\n  - {use: nothing}\n  - {check: {object: App/app}}\n", `no setup "nothing"`},
		"NoActor":             {head + "  steps:\n  - {create: {kind: App}, expect: {allowed: true}}\n", "who does it"},
		"TwoVerbs":            {head + "  steps:\n  - {as: hans, create: {kind: App}, apply: {kind: App}, expect: {allowed: true}}\n", "does one thing"},
		"NoVerb":              {head + "  steps:\n  - {as: hans, expect: {allowed: true}}\n", "does one thing"},
		"PatchOfBothKinds":    {head + "  steps:\n  - {as: hans, patch: {of: App/app, merge: {}, json: []}, expect: {allowed: true}}\n", "either merge or json"},
		"AllowedWithReason":   {head + "  steps:\n  - {as: hans, create: {kind: App}, expect: {allowed: true, reason: Drift}}\n", "has no reason"},
		"RefusedWithObject":   {head + "  steps:\n  - {as: hans, create: {kind: App}, expect: {code: 403, fields: {a: 1}}}\n", "no object to look at"},
		"CheckOfNothing":      {head + "  steps:\n  - {check: {within: 1s}}\n", "a check is about"},
		"CheckWithActor":      {head + "  steps:\n  - {as: hans, check: {object: App/app}}\n", "stands alone"},
		"LooksOfTheAbsent":    {head + "  steps:\n  - {check: {object: App/app, exists: false, fields: {a: 1}}}\n", "has no looks"},
		"UserAndAccount":      {head + "  steps:\n  - {as: {user: a, serviceAccount: b/c}, create: {kind: App}, expect: {allowed: true}}\n", "not both"},
		"Table":               {head + "  each: {A: {col: a}, B: {col: b, reason: for its own}}\n  steps:\n  - {as: hans, create: {kind: App, name: $(col)}, expect: {allowed: true}}\n", ""},
		"TableOfOneRow":       {head + "  each: {A: {col: a}}\n" + step, "two rows at least"},
		"TableWithAHole":      {head + "  each: {A: {col: a}, B: {m: b}}\n" + step, "row A has the columns [col], row B has [m]"},
		"TableFillsNonsense":  {head + "  each: {A: {col: a}, B: {col: b}}\n  steps:\n  - {as: hans, create: {kind: App}, expect: $(col)}\n", "cannot unmarshal"},
		"DurationWithoutUnit": {head + "  steps:\n  - {check: {object: App/app, within: 5}}\n", "string"},
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

// aboutPolicies are the files about the kinds of section 6 and the exceptions of
// section 5.
var aboutPolicies = map[string]bool{"allowances": true, "allowance_phases": true, "allowance_external": true,
	"policy_validation": true, "approval_policies": true, "upgrades": true}

// The suite itself loads, is as large as it is said to be, and covers each
// configuration.
func TestSuite(t *testing.T) {
	s, err := Load(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Scenarios); n < 150 {
		t.Errorf("there are %d scenarios, want 150 at least", n)
	}
	policies := 0
	seen := map[string]int{}
	for _, sc := range s.Scenarios {
		if aboutPolicies[sc.File] {
			policies++
		}
		seen[sc.In()]++
		if _, ok := configurations[sc.In()]; !ok {
			t.Errorf("scenario %s is about configuration %s, which nobody installs", sc.ID(), sc.In())
		}
	}
	if policies < 80 {
		t.Errorf("%d scenarios are about policies, want 80 at least", policies)
	}
	for name := range configurations {
		if seen[name] == 0 {
			t.Errorf("no scenario is about configuration %s", name)
		}
	}
}

// rows of the specification's and the seeds' tables, each by words that the spec
// of a scenario must hold.
var rows = []string{
	"1, desired state", "1, parent and child", "1, own controller", "1, machinery", "1, self write", "1, intent generation",
	"2, Protection", "2, Stability", "2, Size", "2, updaters", "2, controllers", "2, phase", "2, freeze", "2, snooze", "2, approve-<id>", `2, initialized: "true"`,
	"3, observed generation", "3, converged", "3, settled", "3, latch", "3, an XR settles", "3, lifecycle", "3, --expect-until=observed",
	"4, rule 1", "4, rule 2", "4, rule 3", "4, rule 4", "4, table row 1", "4, table row 2", "4, table row 3", "4, table row 4", "4, built-in rules",
	"4, --identify-controller=user-hash", "4, --identify-controller=field-manager",
	"5, row 0", "5, row 1", "5, rows 2", "5, row 3", "5, row 4", "5, row 5", "5, row 6", "5, row 7", "5, rows 8", "5, row 9", "5, row 10", "5, row 11", "5, row 12", "5, row 13",
	"5, mode precedence", "5, refusals", "5, --composed-refusal-status", "5, dryRun",
	"6, grant", "6, choice", "6, an entry", "6, hop of an allowance", "6, cover", "6, consumed", "6, initializing", "6, deleting", "6, External",
	"6, UpgradeAllowance, window", "6, UpgradeAllowance, fingerprint", "6, UpgradeAllowance, once per object", "6, paths", "6, checked by the CRD",
	"seed 003, propagation", "seed 003, linearity", "seed 003, attestations", "seed 004, mutations", "seed 004, conditions",
	"5, ApprovalPolicy, modes", "5, ApprovalPolicy, subjects", "5, ApprovalPolicy, use count", "5, CEL", "5, ClusterApprovalPolicy",
	"4, narrowing by allowances", "4, table row 4, otherActors", "5, IfNeeded",
	"5, approval fields", "5, digest", "5, once", "5, generation", "5, always", "5, pruned", "7", "8, deletion", "10, Drift", "10, Resolved",
	"seed 000, detection", "seed 000, approval modes", "seed 000, approval validity", "seed 000, pruning rules", "seed 000, rejection priority",
	"seed 000, precedence 1", "seed 000, precedence 2", "seed 000, precedence 3", "seed 000, initialization", "seed 000, deletion", "seed 000, operations by type",
	"seed 000, origin", "seed 000, controller hop", "seed 000, trace lifecycle", "seed 000, trace labels", "seed 000, DriftReport",
	"seed 000, resolution triggers 1", "seed 000, resolution triggers 2", "seed 000, resolution triggers 3", "seed 000, parent not found", "seed 000, multi-parent",
	"seed 001, freeze", "seed 001, snooze", "seed 001, rejection fields", "seed 001 approval fields",
	"seed 002, UPDATE handling row 1", "seed 002, UPDATE handling row 2", "seed 002, UPDATE handling row 3", "seed 002, detection algorithm",
	"seed 002, initialization detection 2", "seed 002, initialization detection 3", "seed 002, no controller ownerReference", "seed 002, error resolving parent",
	"facts 6", "facts 7", "facts 8", "facts 10", "facts 11", "facts 14", "facts, what goes wrong elsewhere",
}

func TestRowsAreCovered(t *testing.T) {
	s, err := Load(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if !slices.ContainsFunc(s.Scenarios, func(sc Scenario) bool { return strings.Contains(sc.Spec, row) }) {
			t.Errorf("no scenario is about %q", row)
		}
	}
}

func TestUserHash(t *testing.T) {
	for user, want := range map[string]string{"hans@example.com": "6boq4", "system:serviceaccount:apps:app-controller": "3kyct"} {
		if got := userHash(user); got != want {
			t.Errorf("%s: want %s, got %s", user, want, got)
		}
	}
}

// A known defect that is repaired fails, so that its mark cannot go stale.
func TestJudge(t *testing.T) {
	wrong := errors.New("spec.count is 2, want 3")
	cases := map[string]struct {
		defect string
		err    error
		want   Verdict
		why    string
	}{
		"Passed":   {"", nil, Passed, ""},
		"Failed":   {"", wrong, Failed, "want 3"},
		"Known":    {"it counts wrongly", wrong, Defective, "it counts wrongly"},
		"Repaired": {"it counts wrongly", nil, Failed, "take knownDefect out"},
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

// A row fills its columns in, whole values and parts of texts, and leaves other
// variables alone.
func TestRows(t *testing.T) {
	sc := Scenario{File: "f", Name: "N", Reason: "all", Each: map[string]map[string]any{
		"B": {"who": "hans", "spec": map[string]any{"a": 1.0}},
		"A": {"who": "alice", "spec": []any{"$(ns)"}, "reason": "its own"},
	}, Steps: []map[string]any{{"as": "$(who)", "create": map[string]any{"spec": "$(spec)", "name": "of-$(who)-$(ns)"}}}}
	rows, err := sc.rows()
	if err != nil || len(rows) != 2 {
		t.Fatal(rows, err)
	}
	want := []Scenario{
		{File: "f", Name: "N.A", Reason: "its own", Steps: []map[string]any{{"as": "alice", "create": map[string]any{"spec": []any{"$(ns)"}, "name": "of-alice-$(ns)"}}}},
		{File: "f", Name: "N.B", Reason: "all", Steps: []map[string]any{{"as": "hans", "create": map[string]any{"spec": map[string]any{"a": 1.0}, "name": "of-hans-$(ns)"}}}},
	}
	if !reflect.DeepEqual(want, rows) {
		t.Errorf("want %v, got %v", want, rows)
	}
	if sc.Each["A"]["reason"] != "its own" || sc.Steps[0]["as"] != "$(who)" {
		t.Error("the table itself was modified")
	}
}

func TestCopies(t *testing.T) {
	crd := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "govs.example.org", "annotations": map[string]any{copiedAnnotation: "true"}},
		"spec": map[string]any{"names": map[string]any{"kind": "Gov", "plural": "govs"}}}}
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
		t.Errorf("one that is not marked is itself: %v, %v", all, err)
	}
}

// The later webhook answers the patch that an object asks for, and nothing else.
func TestAnswerLater(t *testing.T) {
	review := func(annotations string) string {
		return `{"request": {"uid": "u", "object": {"metadata": {"annotations": {` + annotations + `}}}}}`
	}
	cases := map[string]struct{ raw, want string }{
		"Patch":     {review(`"` + LaterLabel + `": "[]"`), `{"uid":"u","allowed":true,"patchType":"JSONPatch","patch":"W10="}`},
		"Nothing":   {review(""), `{"uid":"u","allowed":true}`},
		"NoRequest": {`{}`, ""},
		"NoJSON":    {`[`, ""},
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
