package checkplan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/gate/systems"
)

// maxInput bounds a plan or a list of allowances, in bytes.
const maxInput = 256 << 20

// Output formats.
const (
	OutputText = "text"
	OutputJSON = "json"
)

// Options of a check. A file named "-" is standard input, which one of them may
// be at most.
type Options struct {
	// Plan is the file with the plan; standard input where empty.
	Plan string
	// Allowances is a file with a list of allowances, Annotations one with an
	// object that has them in an annotation. Where neither is given, the
	// environment shows what is allowed.
	Allowances, Annotations string
	// Getenv returns an environment variable, "" for one that is not set.
	Getenv func(string) string
	// Output is OutputText or OutputJSON.
	Output string
}

// NotAllowedError reports that the input was read, and some actions are not
// allowed.
type NotAllowedError struct {
	// Refused of all Actions of the plan.
	Refused, Actions int
	// First of those that are refused, with the reason.
	First string
}

// Error counts the actions, and names the first.
func (e *NotAllowedError) Error() string {
	return fmt.Sprintf("%d of %d actions of the plan are not allowed: %s", e.Refused, e.Actions, e.First)
}

// report is the JSON output.
type report struct {
	Allowed bool `json:"allowed"`
	systems.Plan
	Actions []external.PlanVerdict `json:"actions"`
	// Note about what is allowed; empty for none.
	Note string `json:"note,omitempty"`
	// UnknownTargetKeys of allowances, which therefore permit nothing.
	UnknownTargetKeys []string `json:"unknownTargetKeys,omitempty"`
}

// Run checks a plan and prints the verdicts. The error is a NotAllowedError
// where an action is not allowed; any other is a mistake in the options or the
// input, except where printing fails: that is returned as it is, joined with
// ErrOutput.
func Run(o Options, in io.Reader, out io.Writer) error {
	o.Plan = cmp.Or(o.Plan, "-")
	if err := o.check(); err != nil {
		return err
	}
	of, err := o.allowed(in)
	if err != nil {
		return err
	}
	raw, err := read(o.Plan, in)
	if err != nil {
		return fmt.Errorf("--plan: %w", err)
	}
	return o.judge(raw, of, out)
}

// judge judges a plan by what is allowed, and prints the verdicts.
func (o Options) judge(raw []byte, of allowed, out io.Writer) error {
	plan, err := systems.ReadPlan(raw)
	if err != nil {
		return err
	}
	r := report{Plan: plan, Actions: external.CheckPlan(plan.Actions, of.permissions), Note: of.note,
		UnknownTargetKeys: external.UnknownKeys(of.permissions, external.PlanTargetKeys)}
	refused, first := 0, ""
	for _, v := range r.Actions {
		if !v.Allowed {
			if refused++; refused == 1 {
				first = fmt.Sprintf("%s %s, %s", v.Operation, v.Address, v.Why)
			}
		}
	}
	r.Allowed = refused == 0
	if err := o.print(out, r); err != nil {
		return errors.Join(ErrOutput, err)
	}
	if refused > 0 {
		return &NotAllowedError{Refused: refused, Actions: len(r.Actions), First: first}
	}
	return nil
}

// allowed returns what the options, or else the environment, show to be allowed.
func (o Options) allowed(in io.Reader) (allowed, error) {
	if o.Allowances == "" && o.Annotations == "" {
		return inEnvironment(o.Getenv, time.Now())
	}
	permissions, err := o.permissions(in)
	return allowed{permissions: permissions}, err
}

// ErrOutput is returned where the verdicts could not be printed.
var ErrOutput = errors.New("cannot print the verdicts")

// check checks the options before any file is read. Its errors name the flags.
func (o Options) check() error {
	switch {
	case o.Allowances != "" && o.Annotations != "":
		return errors.New("give either --allowances or --annotations")
	case o.Plan == "-" && (o.Allowances == "-" || o.Annotations == "-"):
		return errors.New("only one of --plan, whose default is -, and the allowances can come from standard input")
	}
	return nil
}

// read reads a file, or standard input, up to maxInput.
func read(file string, in io.Reader) ([]byte, error) {
	if file != "-" {
		opened, err := os.Open(file) //nolint:gosec // The command line names the file.
		if err != nil {
			return nil, err
		}
		defer opened.Close() //nolint:errcheck // It is only read.
		in = opened
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxInput {
		return nil, fmt.Errorf("it is larger than %d bytes", maxInput)
	}
	return raw, nil
}

// permissions returns the permissions of the file that the options name. Those of an annotation count only as
// far as they are not consumed.
func (o Options) permissions(in io.Reader) ([]external.Permission, error) {
	if o.Allowances != "" {
		raw, err := read(o.Allowances, in)
		if err != nil {
			return nil, fmt.Errorf("--allowances: %w", err)
		}
		out, err := external.ParsePermissions(string(raw))
		if err != nil {
			return nil, fmt.Errorf("--allowances: %w", err)
		}
		return out, nil
	}
	raw, err := read(o.Annotations, in)
	if err != nil {
		return nil, fmt.Errorf("--annotations: %w", err)
	}
	meta := metav1.PartialObjectMetadata{}
	if err := yaml.Unmarshal(raw, &meta); err != nil {
		return nil, fmt.Errorf("--annotations: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	if meta.Kind == "" {
		return nil, errors.New("--annotations: an object with kind and metadata is expected, as kubectl get -o yaml prints it")
	}
	return unconsumed(meta.Annotations)
}

// unconsumed permissions of an object's annotations: those that it got after it
// last settled (KR-06-08).
func unconsumed(annotations map[string]string) ([]external.Permission, error) {
	out, err := external.ParsePermissions(annotations[v1alpha1.AnnotationKeyAllowances])
	if err != nil {
		return nil, fmt.Errorf("--annotations: %w", err)
	}
	settled := int64(0)
	if value := annotations[v1alpha1.AnnotationKeySettledGeneration]; value != "" {
		if settled, err = strconv.ParseInt(value, 10, 64); err != nil {
			return nil, fmt.Errorf("--annotations: %s is %q, not a number", v1alpha1.AnnotationKeySettledGeneration, value)
		}
	}
	return external.Unconsumed(out, settled), nil
}

// print prints the report in the form that the options name.
func (o Options) print(out io.Writer, r report) error {
	if o.Output == OutputJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err := io.WriteString(out, text(r))
	return err
}
