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
		"Allowed": {
			reason: "everything is",
			args:   check("create", "--allowances="+file(t, "input", applyOnly)),
			want:   "Plan: 7 to check, 0 not allowed; 0 without change.",
		},
		"NoChange": {
			reason: "nothing to allow",
			args:   check("noop", "--allowances="+file(t, "input", "[]")),
			want:   "Plan: 0 to check, 0 not allowed; 7 without change.",
		},
		"Refused": {
			reason: "destroying is not",
			args:   check("changes", "--allowances="+file(t, "input", applyOnly)),
			code:   1,
			want:   "refused -   delete  terraform_data.gone (delete_because_no_resource_config; no allowance permits Delete (destroy))",
		},
		"Everything": {
			reason: "with both verbs",
			args:   check("changes", "--allowances="+file(t, "input", everything)),
			want:   "0 not allowed",
		},
		"Nobody": {
			reason: "without any",
			args:   check("destroy", "--allowances="+file(t, "input", "[]")),
			code:   1,
			want:   "Plan: 7 to check, 7 not allowed",
		},
		"Stdin":       {reason: "the allowances", stdin: everything, args: check("destroy", "--allowances=-"), want: "0 not allowed"},
		"Annotations": {reason: "of an object", args: check("create", "--annotations="+file(t, "input", workspace)), want: "0 not allowed"},
		"Consumed": {
			reason: "the object settled for it: it is used",
			stdin:  workspace,
			args:   check("destroy", "--annotations=-"),
			code:   1,
			want:   "7 not allowed",
		},
		"NotCarried": {
			reason: "an object without allowances",
			args:   check("create", "--annotations="+file(t, "input", "apiVersion: v1\nkind: Workspace\nmetadata: {name: x}\n")),
			code:   1,
			want:   "7 not allowed",
		},
		"UnknownKey": {
			reason: "a key that no action has permits nothing, and is named",
			stdin:  `[{"relation":"External","verbs":["*"],"externalTarget":{"kind":"x"}}]`,
			args:   check("create", "--allowances=-"),
			code:   1,
			want:   `names the target key "kind"`,
		},
		"AWS": {
			reason: "drift, deferred, outputs",
			stdin:  everything,
			args:   check("aws", "--allowances=-"),
			code:   1,
			want:   "refused ?   unknown aws_sqs_queue.jobs",
		},
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
		"NoPlan":       {reason: "nothing on standard input", args: []string{"--allowances=" + list}, want: "cannot read the plan"},
		"NoAllowances": {reason: "by what?", args: []string{"--plan=" + good}, want: "nothing shows what is allowed: give --allowances or --annotations"},
		"Both": {
			reason: "one of them",
			args:   []string{"--plan=" + good, "--allowances=" + list, "--annotations=" + list},
			want:   "either --allowances or --annotations",
		},
		"TwoStdin": {reason: "it can be read once", args: []string{"--plan=-", "--allowances=-"}, want: "only one"},
		"Output": {
			reason: "an unknown format",
			args:   []string{"--plan=" + good, "--allowances=" + list, "-o=yaml"},
			want:   "--output must be text or json",
		},
		"NoFile": {reason: "no such plan", args: []string{"--plan=nowhere", "--allowances=" + list}, want: "--plan: open nowhere"},
		"NoListFile": {
			reason: "no such allowances",
			args:   []string{"--plan=" + good, "--allowances=nowhere"},
			want:   "--allowances: open nowhere",
		},
		"NoPlanAtAll": {
			reason: "not a plan",
			stdin:  "hello",
			args:   []string{"--plan=-", "--allowances=" + list},
			want:   "cannot read the plan",
		},
		"State":   {reason: "a state", args: []string{"--plan=" + plans + "state.json", "--allowances=" + list}, want: "not for a state"},
		"BadList": {reason: "no list", stdin: "{", args: []string{"--plan=" + good, "--allowances=-"}, want: "cannot parse allowances"},
		"NoObject": {
			reason: "a list is no object",
			stdin:  "[]",
			args:   []string{"--plan=" + good, "--annotations=-"},
			want:   "--annotations",
		},
		"NoKind": {
			reason: "annotations alone are none",
			stdin:  "kausality.io/allowances: '[]'",
			args:   []string{"--plan=" + good, "--annotations=-"},
			want:   "an object with kind",
		},
		"BadCarried": {
			reason: "an annotation that does not parse permits nothing",
			stdin:  "kind: X\nmetadata: {annotations: {kausality.io/allowances: '{'}}",
			args:   []string{"--plan=" + good, "--annotations=-"},
			want:   "cannot parse allowances",
		},
		"BadSettled": {
			reason: "nor one that is no number",
			stdin:  "kind: X\nmetadata: {annotations: {kausality.io/settled-generation: x}}",
			args:   []string{"--plan=" + good, "--annotations=-"},
			want:   "not a number",
		},
		"Flag":     {reason: "an unknown flag", args: []string{"--nope"}, want: "unknown flag"},
		"Argument": {reason: "an argument", args: []string{"plan.json"}, want: "unknown command or argument"},
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
	if again, second, _ := kausalityWith(t, applyOnly, "terraform", "check-plan", "--plan="+plans+"aws.json", "--allowances=-", "-o",
		"json"); again != code || second != out {
		t.Error("same input, other output")
	}
}

// What cannot be checked is not run. The rest is in test/terraform, with the real OpenTofu.
func TestExecBadInput(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"Nothing":   {want: "name the program and its arguments after --"},
		"Question":  {args: []string{"--", "false", "apply"}, want: "give -auto-approve, or the file of a plan"},
		"Denied":    {args: []string{"--", "false", "apply", "-auto-approve=0"}, want: "give -auto-approve"},
		"NoProgram": {args: []string{"--", "/nowhere/tofu", "version"}, want: "cannot run /nowhere/tofu"},
		"Flag":      {args: []string{"--auto-approve"}, want: "unknown flag"},
	} {
		code, out, msg := kausalityWith(t, "", append([]string{"terraform", "exec"}, tc.args...)...)
		if code != exitUsage || !strings.Contains(msg, tc.want) || out != "" {
			t.Errorf("%s: exit code %d, %q, output %q", name, code, msg, out)
		}
	}
	if code, out, msg := kausalityWith(t, "", "terraform", "exec", "--", "sh", "-c", "echo ran; exit 7"); code != 7 || out != "ran\n" || msg != "" {
		t.Errorf("another command: exit code %d, %q, output %q", code, msg, out)
	}
}
