package checkplan

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/gate/systems"
)

// VariablePlanning is the environment variable by which Exec reports what plan would change, as an output (KR-08-67).
const VariablePlanning = "KAUSALITY_PLANNING"

// exitDiffers is the exit code of plan -detailed-exitcode where there are changes.
const exitDiffers = 2

// reports of what the last plan of a working directory would change: recorded by plan, and added to what output prints. A provider puts the
// outputs into the status of its Workspace.
type reports struct {
	Exec
	// file with the external.RunPlan.
	file string
}

// reports returns where reports are kept; nil where none are wanted.
func (e Exec) reports() (*reports, error) {
	text := e.Getenv(VariablePlanning)
	if text == "" {
		return nil, nil
	}
	wanted, err := strconv.ParseBool(text)
	if err != nil {
		return nil, &UsageError{fmt.Sprintf("%s is %q: set it to true or false", VariablePlanning, text)}
	}
	if !wanted {
		return nil, nil
	}
	of, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(of))
	// Not in the working directory, whose checksum the provider compares.
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("kausality-plans-%d", os.Getuid()))
	return &reports{Exec: e, file: filepath.Join(dir, hex.EncodeToString(sum[:16])+".json")}, nil
}

// run runs a command that applies nothing.
func (r *reports) run(ctx context.Context, c command) error {
	has := func(option string) bool {
		return slices.ContainsFunc(c.args, func(a string) bool { return strings.HasPrefix(a, "-") && name(a) == option })
	}
	switch {
	case c.subcommand == "plan" && has("detailed-exitcode") && !has("out"):
		return r.plan(ctx, c)
	case c.subcommand == "output" && has("json") && len(slices.DeleteFunc(slices.Clone(c.args), func(a string) bool { return strings.HasPrefix(a, "-") })) == 0:
		return r.output(ctx, c)
	}
	return r.Exec.run(ctx, r.Out, r.Command...)
}

// plan runs a plan, and records what it would change. The exit code is that of the plan, also where it cannot be recorded: the
// provider goes on as it would without a report.
func (r *reports) plan(ctx context.Context, c command) error {
	r.forget()
	dir, err := os.MkdirTemp("", "kausality-plan-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // It is below the temporary directory, and its name is never used again.
	file := filepath.Join(dir, "tfplan")
	planned := r.Exec.run(ctx, r.Out, c.with("plan", append(slices.Clone(c.args), "-out="+file)...)...)
	var exited *exec.ExitError
	if planned != nil && (!errors.As(planned, &exited) || exited.ExitCode() != exitDiffers) {
		return planned
	}
	report := external.RunPlan{}
	if planned != nil {
		report, err = r.changes(ctx, c, file)
	}
	if err == nil {
		err = r.record(report)
	}
	if err != nil {
		fmt.Fprintf(r.Err, "kausality: what the plan would change is not reported: %v\n", err)
	}
	return planned
}

// changes reads a plan that has some.
func (r *reports) changes(ctx context.Context, c command, file string) (out external.RunPlan, err error) {
	var raw bytes.Buffer
	if err := r.Exec.run(ctx, &raw, c.with("show", "-json", "-no-color", file)...); err != nil {
		return out, fmt.Errorf("cannot show the plan: %w", err)
	}
	plan, err := systems.ReadPlan(raw.Bytes())
	if err != nil {
		return out, err
	}
	return runPlan(plan), nil
}

// runPlan returns what a plan would change.
func runPlan(p systems.Plan) external.RunPlan {
	out := external.RunPlan{Differs: true, Changes: map[string]external.Operation{}}
	add := func(address string, op external.Operation) {
		if _, listed := out.Changes[address]; !listed && len(out.Changes) == external.MaxPlanned {
			out.More++
			return
		}
		out.Changes[address] = op
	}
	for _, a := range p.Actions {
		switch op, _ := a.Operation(); op {
		case external.OperationNone, external.OperationRead:
		default:
			add(a.Address, op)
		}
	}
	for _, o := range p.Outputs {
		add("output."+o, external.OperationUpdate)
	}
	return out
}

// record a report. A reader has the old one or the new one.
func (r *reports) record(report external.RunPlan) error {
	raw, err := json.Marshal(report)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(r.file), 0o700); err != nil {
		return err
	}
	if err := r.private(); err != nil {
		return err
	}
	temporary := r.file + "." + strconv.Itoa(os.Getpid())
	if err := os.WriteFile(temporary, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, r.file)
}

// private returns an error where others may write the reports.
func (r *reports) private() error {
	dir := filepath.Dir(r.file)
	info, err := os.Lstat(dir)
	if err == nil && (!info.IsDir() || info.Mode().Perm()&0o077 != 0) {
		err = fmt.Errorf("%s is no directory of this user alone", dir)
	}
	return err
}

// forget forgets the report: what a plan would change is not known.
func (r *reports) forget() {
	if err := os.Remove(r.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(r.Err, "kausality: the report of an earlier plan cannot be removed: %v\n", err)
	}
}

// planType is the type of the output, as Terraform has it.
const planType = `["object",{"changes":["map","string"],"differs":"bool","more":"number"}]`

// output prints the outputs with the report, and without an output of the module that has its name.
func (r *reports) output(ctx context.Context, c command) error {
	var raw bytes.Buffer
	err := r.Exec.run(ctx, &raw, r.Command...)
	outputs := map[string]json.RawMessage{}
	if err != nil || json.Unmarshal(raw.Bytes(), &outputs) != nil {
		_, written := r.Out.Write(raw.Bytes())
		return errors.Join(err, written)
	}
	delete(outputs, external.PlanOutput)
	report, err := os.ReadFile(r.file)
	if err == nil && r.private() == nil && json.Valid(report) && (len(outputs) > 0 || r.manages(ctx, c)) {
		outputs[external.PlanOutput] = fmt.Appendf(nil, `{"sensitive":false,"type":%s,"value":%s}`, planType, report)
	}
	text, err := json.MarshalIndent(outputs, "", "  ")
	if err != nil {
		return err
	}
	_, err = r.Out.Write(append(text, '\n'))
	return err
}

// manages reports whether the state has a resource: where it has none, an output would be taken for one.
func (r *reports) manages(ctx context.Context, c command) bool {
	var list bytes.Buffer
	quiet := r.Exec
	quiet.Err = io.Discard // of a state that does not exist yet
	return quiet.run(ctx, &list, c.with("state", "list")...) == nil && len(bytes.TrimSpace(list.Bytes())) > 0
}
