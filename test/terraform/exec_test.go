package terraform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// run is a directory with a configuration, and the environment of a run.
type run struct {
	*testing.T
	dir             string
	kausality, tofu string
}

// ofTofu returns an empty directory for runs of OpenTofu.
func ofTofu(t *testing.T) *run {
	t.Helper()
	paths, err := parts.Ensure(t.Context(), os.Stderr, "", parts.Kausality, parts.Tofu)
	require.NoError(t, err)
	return &run{T: t, dir: t.TempDir(), kausality: paths[parts.Kausality], tofu: paths[parts.Tofu]}
}

// module writes the configuration.
func (r *run) module(text string) {
	r.Helper()
	require.NoError(r, os.WriteFile(filepath.Join(r.dir, "main.tf"), []byte(text), 0o600))
}

// exec runs a command of tofu in the wrapper, with variables of the environment.
func (r *run) exec(env []string, args ...string) (code int, out string) {
	r.Helper()
	return r.command(env, "", r.kausality, append([]string{"terraform", "exec", "--", r.tofu}, args...)...)
}

// allowing is the environment of a Workspace whose gate is open for verbs; without any, of one in mode log.
func allowing(verbs string) []string {
	out := []string{"KAUSALITY_TRACE_ID=5f0c1e9a37b2d846", "KAUSALITY_INITIATOR=hans@example.com", "KAUSALITY_ORIGIN=XDatabase.example.org/shop/orders@4"}
	if verbs != "" {
		out = append(out, "KAUSALITY_ALLOWED="+verbs, "KAUSALITY_ALLOWED_UNTIL=2126-01-01T00:00:00Z")
	}
	return out
}

// command runs a program in the directory, and returns its exit code and all that it prints.
func (r *run) command(env []string, stdin, program string, args ...string) (code int, out string) {
	r.Helper()
	cmd := exec.CommandContext(r.Context(), program, args...)
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(stdin)
	cmd.Env = append(append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_CLI_CONFIG_FILE="+os.DevNull, "TMPDIR="+r.dir), env...)
	var all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &all, &all
	err := cmd.Run()
	var exited *exec.ExitError
	if !errors.As(err, &exited) {
		require.NoError(r, err)
	}
	return cmd.ProcessState.ExitCode(), all.String()
}

// state returns what the state has, as text.
func (r *run) state() string {
	r.Helper()
	_, out := r.command(nil, "", r.tofu, "show", "-no-color")
	return out
}

// size is a configuration whose resource is updated with its input, and replaced with its name.
func size(input, name string) string {
	return `
variable "kausality_origin" {
  type    = string
  default = ""
}
resource "terraform_data" "size" {
  input            = "` + input + `"
  triggers_replace = "` + name + `"
}
resource "terraform_data" "secret" { input = sensitive("hunter2") }
output "origin" { value = var.kausality_origin }
`
}

// TestExec: the wrapper applies exactly the plans that are allowed, and passes the exit codes of tofu on (KR-08-63).
func TestExec(t *testing.T) {
	t.Parallel()
	r := ofTofu(t)
	apply := []string{"apply", "-no-color", "-auto-approve", "-input=false"}
	for _, step := range []struct {
		reason, module string
		env            []string
		args           []string
		code           int
		// want are parts of what is printed; state is a part of the state after it, without "not ".
		want  []string
		state string
	}{
		{reason: "other commands run as they are", module: size("1", "a"), args: []string{"init", "-no-color"}, want: []string{"initialized"}},
		{reason: "nothing is known of what is allowed", args: apply, code: 3, want: []string{"nothing shows what is allowed", "nothing was applied"},
			state: "No state"},
		{reason: "a creation is", env: append(allowing("apply"), "TF_VAR_kausality_origin=XDatabase/orders@4"), args: apply,
			want:  []string{"allowed +   create  terraform_data.size", "Plan: 2 to check, 0 not allowed", "Apply complete! Resources: 2 added"},
			state: "XDatabase/orders@4"},
		{reason: "its secrets are not printed", env: allowing("apply"), args: apply, want: []string{"not hunter2"}},
		{reason: "an update is", module: size("2", "a"), env: allowing("apply"), args: apply, want: []string{"allowed ~   update  terraform_data.size"},
			state: `"2"`},
		{reason: "a replacement destroys", module: size("2", "b"), env: allowing("apply"), args: apply, code: 3,
			want: []string{"refused -/+ replace terraform_data.size", "no allowance permits Delete (destroy)",
				"1 of 2 actions of the plan are not allowed: replace terraform_data.size, no allowance permits Delete (destroy); nothing was applied"},
			state: `= "a"`},
		{reason: "with destroy it is", env: allowing("apply,destroy"), args: apply, want: []string{"allowed -/+ replace"}, state: `= "b"`},
		{reason: "too late", module: size("3", "b"), env: append(allowing("apply"), "KAUSALITY_ALLOWED_UNTIL=2020-01-01T00:00:00Z"), args: apply, code: 3,
			want: []string{"apply was allowed until 2020-01-01T00:00:00Z", "nothing was applied"}, state: `"2"`},
		{reason: "not this part", env: append(allowing("apply"),
			`KAUSALITY_ALLOWANCES=[{"relation":"External","verbs":["apply"],"externalTarget":{"name":"other"}}]`),
			args: apply, code: 3, want: []string{"refused ~   update  terraform_data.size"}, state: `"2"`},
		{reason: "this part", env: append(allowing("apply"), `KAUSALITY_ALLOWANCES=[{"relation":"External","verbs":["apply"],"externalTarget":{"name":"size"}}]`),
			args: apply, want: []string{"allowed ~   update  terraform_data.size (allowance 1 of hans@example.com by XDatabase.example.org/shop/orders@4)"},
			state: `"3"`},
		{reason: "mode log limits nothing", module: size("4", "c"), env: allowing(""), args: apply,
			want: []string{"no gate limits this run", "allowed -/+ replace"}, state: `"4"`},
		{reason: "a plan that was made", module: size("5", "c"), args: []string{"plan", "-no-color", "-out=made", "-detailed-exitcode"}, code: 2,
			want: []string{"1 to change"}},
		{reason: "is checked as well", args: []string{"apply", "made"}, env: allowing("destroy"), code: 3, want: []string{"refused ~   update"}, state: `"4"`},
		{reason: "and applied", args: []string{"apply", "-no-color", "made"}, env: allowing("apply"),
			want: []string{"allowed ~   update", "Apply complete!"}, state: `"5"`},
		{reason: "a stale one is refused by tofu", args: []string{"apply", "-no-color", "made"}, env: allowing("apply"), code: 1, want: []string{"stale"},
			state: `"5"`},
		{reason: "a configuration that is wrong", module: "resource {", env: allowing("apply"), args: apply, code: 1, want: []string{"Error:", "not kausality:"}},
		{reason: "a question would not be answered", module: size("6", "c"), env: allowing("apply"), args: []string{"apply"}, code: 2,
			want: []string{"give -auto-approve"}},
		{reason: "destroying is not allowed", env: allowing("apply"), args: []string{"destroy", "-no-color", "-auto-approve"}, code: 3,
			want: []string{"refused -   delete  terraform_data.size"}, state: `"5"`},
		{reason: "it is", env: allowing("destroy"), args: []string{"-chdir=.", "destroy", "-no-color", "-auto-approve"},
			want: []string{"Apply complete!", "2 destroyed"}, state: "not terraform_data"},
	} {
		if step.module != "" {
			r.module(step.module)
		}
		code, out := r.exec(step.env, step.args...)
		require.Equal(t, step.code, code, "%s: %s", step.reason, out)
		for _, want := range step.want {
			contains(t, out, want, step.reason)
		}
		if step.state != "" {
			contains(t, r.state(), step.state, step.reason)
		}
	}
	left, err := filepath.Glob(filepath.Join(r.dir, "kausality-plan-*"))
	require.NoError(t, err)
	require.Empty(t, left, "plans have secrets")
}

// contains requires a part of a text, or that it lacks what follows "not ".
func contains(t *testing.T, text, part, reason string) {
	t.Helper()
	if without, ok := strings.CutPrefix(part, "not "); ok {
		require.NotContains(t, text, without, reason)
		return
	}
	require.Contains(t, text, part, reason)
}

// TestCheckPlanStep: the same as a step of a pipeline, without flags.
func TestCheckPlanStep(t *testing.T) {
	t.Parallel()
	r := ofTofu(t)
	r.module(size("1", "a"))
	for _, args := range [][]string{{"init", "-no-color"}, {"plan", "-out=tfplan"}} {
		code, out := r.command(nil, "", r.tofu, args...)
		require.Zero(t, code, out)
	}
	_, plan := r.command(nil, "", r.tofu, "show", "-json", "tfplan")
	for _, tc := range []struct {
		env  []string
		code int
		want string
	}{
		{env: allowing("apply"), want: "Plan: 2 to check, 0 not allowed"},
		{env: allowing("destroy"), code: 1, want: "refused +   create  terraform_data.size"},
		{code: 2, want: "nothing shows what is allowed"},
	} {
		code, out := r.command(tc.env, plan, r.kausality, "terraform", "check-plan")
		require.Equal(t, tc.code, code, out)
		require.Contains(t, out, tc.want)
		require.NotContains(t, out, "hunter2")
	}
}

// TestExecEnds: the end of the wrapper interrupts OpenTofu, which applies nothing more, and leaves no lock.
func TestExecEnds(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			r := ofTofu(t)
			r.module(`
resource "terraform_data" "slow" {
  provisioner "local-exec" { command = "echo $$ > pid; exec sleep 300" }
}
resource "terraform_data" "next" { input = terraform_data.slow.id }
`)
			code, out := r.exec(nil, "init", "-no-color")
			require.Zero(t, code, out)
			cmd := exec.CommandContext(t.Context(), r.kausality, "terraform", "exec", "--", r.tofu, "apply", "-no-color", "-auto-approve")
			cmd.Dir = r.dir
			cmd.Env = append(append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE="+os.DevNull, "TMPDIR="+r.dir), allowing("apply")...)
			log, err := os.Create(filepath.Join(r.dir, "log"))
			require.NoError(t, err)
			cmd.Stdout, cmd.Stderr = log, log
			require.NoError(t, cmd.Start())
			wait.For(t, "the first resource is being created", time.Minute, func(context.Context) error {
				_, err := os.Stat(filepath.Join(r.dir, "pid"))
				return err
			})
			t.Cleanup(func() { // of the provisioner, which tofu leaves
				if raw, err := os.ReadFile(filepath.Join(r.dir, "pid")); err == nil {
					if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
						_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
					}
				}
			})
			require.NoError(t, cmd.Process.Signal(signal))
			require.Error(t, cmd.Wait())
			wait.For(t, "OpenTofu has ended, and its lock with it", time.Minute, func(context.Context) error {
				if code, out := r.command(nil, "", r.tofu, "plan", "-no-color"); code != 0 {
					return errors.New(out)
				}
				return nil
			})
			require.NotContains(t, r.state(), "terraform_data.next", "applied after the end of the wrapper")
		})
	}
}

// TestReportedPlan: with KAUSALITY_PLANNING, what plan would change is in the outputs, without values, until it is applied (KR-08-67).
func TestReportedPlan(t *testing.T) {
	t.Parallel()
	r := ofTofu(t)
	planning := append(allowing("apply,destroy"), "KAUSALITY_PLANNING=true")
	plan := []string{"plan", "-no-color", "-input=false", "-detailed-exitcode", "-lock=false"}
	output := func() string {
		t.Helper()
		code, out := r.exec(planning, "output", "-json")
		require.Zero(t, code, out)
		var have struct {
			Plan struct{ Value json.RawMessage } `json:"kausality_plan"`
		}
		require.NoError(t, json.Unmarshal([]byte(out), &have), out)
		return string(have.Plan.Value)
	}
	run := func(want int, env []string, args ...string) string {
		t.Helper()
		code, out := r.exec(env, args...)
		require.Equal(t, want, code, out)
		return out
	}
	r.module(size("1", "a") + `output "kausality_plan" { value = "all is well" }`)
	run(0, planning, "init", "-no-color")
	run(2, planning, plan...)
	require.Empty(t, output(), "there is nothing yet")
	run(0, planning, "apply", "-no-color", "-auto-approve", "-input=false")
	require.Empty(t, output(), "the report has ended, and that of the module is left out")
	run(0, planning, plan...)
	require.JSONEq(t, `{"differs":false}`, output())
	r.module(size("2", "b"))
	run(2, planning, plan...)
	require.JSONEq(t, `{"differs":true,"changes":{"output.kausality_plan":"update","terraform_data.size":"replace"}}`, output())
	require.NotContains(t, run(0, allowing("apply"), "output", "-json"), "differs", "without the variable, the outputs are those of the module")
	r.module(`resource "terraform_data" "size" { input = file("absent") }`)
	run(1, planning, plan...)
	require.Empty(t, output(), "a plan that fails reports nothing")
	require.Contains(t, run(2, append(allowing("apply"), "KAUSALITY_PLANNING=perhaps"), plan...), `KAUSALITY_PLANNING is "perhaps"`)
}
