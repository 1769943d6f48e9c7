package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

const plans = "../../gate/systems/testdata/plans/"

// kausalityWith input runs a command line: the exit code, what it prints, and the error.
func kausalityWith(t *testing.T, stdin string, args ...string) (code int, out, msg string) {
	t.Helper()
	var b bytes.Buffer
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&b)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		return exitCode(err), b.String(), err.Error()
	}
	return 0, b.String(), ""
}

const (
	applyOnly  = `[{"relation":"External","verbs":["apply"],"initiator":"hans@example.com"}]`
	everything = `[{"relation":"External","verbs":["apply","destroy"]}]`
	workspace  = `apiVersion: tf.m.upbound.io/v1beta1
kind: Workspace
metadata:
  name: orders
  annotations:
    kausality.io/settled-generation: "3"
    kausality.io/allowances: '[{"relation":"External","verbs":["apply"],"generation":4},{"relation":"External","verbs":["destroy"],"generation":3}]'
`
)

// The exit codes are a contract: 0 allowed, 1 refused, 2 bad input.
func TestCheckPlan(t *testing.T) {
	check := func(plan string, args ...string) []string {
		return append([]string{"terraform", "check-plan", "--plan=" + plans + plan + ".json"}, args...)
	}
	cases := map[string]struct {
		reason, stdin string
		args          []string
		code          int
		want          string
	}{
		"Allowed":     {"everything is", "", check("create", "--allowances="+file(t, "input", applyOnly)), 0, "Plan: 7 to check, 0 not allowed; 0 without change."},
		"NoChange":    {"nothing to allow", "", check("noop", "--allowances="+file(t, "input", "[]")), 0, "Plan: 0 to check, 0 not allowed; 7 without change."},
		"Refused":     {"destroying is not", "", check("changes", "--allowances="+file(t, "input", applyOnly)), 1, "refused -   delete  terraform_data.gone (delete_because_no_resource_config; no allowance permits Delete (destroy))"},
		"Everything":  {"with both verbs", "", check("changes", "--allowances="+file(t, "input", everything)), 0, "0 not allowed"},
		"Nobody":      {"without any", "", check("destroy", "--allowances="+file(t, "input", "[]")), 1, "Plan: 7 to check, 7 not allowed"},
		"Stdin":       {"the allowances", everything, check("destroy", "--allowances=-"), 0, "0 not allowed"},
		"Annotations": {"of an object", "", check("create", "--annotations="+file(t, "input", workspace)), 0, "0 not allowed"},
		"Consumed":    {"the object settled for it: it is used", workspace, check("destroy", "--annotations=-"), 1, "7 not allowed"},
		"NotCarried":  {"an object without allowances", "", check("create", "--annotations="+file(t, "input", "apiVersion: v1\nkind: Workspace\nmetadata: {name: x}\n")), 1, "7 not allowed"},
		"UnknownKey":  {"a key that no action has permits nothing, and is named", `[{"relation":"External","verbs":["*"],"externalTarget":{"kind":"x"}}]`, check("create", "--allowances=-"), 1, `names the target key "kind"`},
		"AWS":         {"drift, deferred, outputs", everything, check("aws", "--allowances=-"), 1, "refused ?   unknown aws_sqs_queue.jobs"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, msg := kausalityWith(t, tc.stdin, tc.args...)
			if code != tc.code || !strings.Contains(out, tc.want) {
				t.Errorf("%s: exit code %d (%s), output:\n%s", tc.reason, code, msg, out)
			}
			if code == 1 && !strings.Contains(msg, "of the plan are not allowed") {
				t.Errorf("%s: %s", tc.reason, msg)
			}
		})
	}
}

func TestCheckPlanBadInput(t *testing.T) {
	good, list := plans+"create.json", file(t, "input", "[]")
	cases := map[string]struct {
		reason, stdin string
		args          []string
		want          string
	}{
		"NoPlan":       {"which plan?", "", []string{"--allowances=" + list}, "--plan is required"},
		"NoAllowances": {"by what?", "", []string{"--plan=" + good}, "either --allowances or --annotations"},
		"Both":         {"one of them", "", []string{"--plan=" + good, "--allowances=" + list, "--annotations=" + list}, "either --allowances or --annotations"},
		"TwoStdin":     {"it can be read once", "", []string{"--plan=-", "--allowances=-"}, "only one"},
		"Output":       {"a format nobody knows", "", []string{"--plan=" + good, "--allowances=" + list, "-o=yaml"}, "--output must be text or json"},
		"NoFile":       {"no such plan", "", []string{"--plan=nowhere", "--allowances=" + list}, "--plan: open nowhere"},
		"NoListFile":   {"no such allowances", "", []string{"--plan=" + good, "--allowances=nowhere"}, "--allowances: open nowhere"},
		"NoPlanAtAll":  {"not a plan", "hello", []string{"--plan=-", "--allowances=" + list}, "cannot read the plan"},
		"State":        {"a state", "", []string{"--plan=" + plans + "state.json", "--allowances=" + list}, "not for a state"},
		"BadList":      {"no list", "{", []string{"--plan=" + good, "--allowances=-"}, "cannot parse allowances"},
		"NoObject":     {"a list is no object", "[]", []string{"--plan=" + good, "--annotations=-"}, "--annotations"},
		"NoKind":       {"annotations alone are none", "kausality.io/allowances: '[]'", []string{"--plan=" + good, "--annotations=-"}, "an object with kind"},
		"BadCarried":   {"an annotation that does not parse permits nothing", "kind: X\nmetadata: {annotations: {kausality.io/allowances: '{'}}", []string{"--plan=" + good, "--annotations=-"}, "cannot parse allowances"},
		"BadSettled":   {"nor one that is no number", "kind: X\nmetadata: {annotations: {kausality.io/settled-generation: x}}", []string{"--plan=" + good, "--annotations=-"}, "not a number"},
		"Flag":         {"a flag nobody knows", "", []string{"--nope"}, "unknown flag"},
		"Argument":     {"an argument", "", []string{"plan.json"}, "unknown command or argument"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, msg := kausalityWith(t, tc.stdin, append([]string{"terraform", "check-plan"}, tc.args...)...)
			if code != 2 || !strings.Contains(msg, tc.want) || out != "" {
				t.Errorf("%s: exit code %d, %q, output %q", tc.reason, code, msg, out)
			}
		})
	}
	if code, _, msg := kausalityWith(t, "", "terraform"); code != 2 || !strings.Contains(msg, "name a command") {
		t.Errorf("without a subcommand: %d %s", code, msg)
	}
}

func TestCheckPlanJSON(t *testing.T) {
	code, out, _ := kausalityWith(t, applyOnly, "terraform", "check-plan", "--plan="+plans+"aws.json", "--allowances=-", "-o", "json")
	var got struct {
		Allowed                    bool
		TerraformVersion           string
		Actions                    []map[string]any
		Outputs, Drifted, Deferred []string
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 1 {
		t.Fatalf("exit code %d: %v\n%s", code, err, out)
	}
	if got.Allowed || got.TerraformVersion != "1.13.3" || len(got.Actions) != 8 || len(got.Outputs) != 1 || len(got.Drifted) != 2 || len(got.Deferred) != 1 {
		t.Errorf("%s", out)
	}
	first := got.Actions[0]
	if first["address"] != "module.db.aws_db_instance.orders" || first["operation"] != "update" || first["allowed"] != true || first["reverts"] != true {
		t.Errorf("%v", first)
	}
	if again, second, _ := kausalityWith(t, applyOnly, "terraform", "check-plan", "--plan="+plans+"aws.json", "--allowances=-", "-o", "json"); again != code || second != out {
		t.Error("same input, other output")
	}
}
