package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	gate "github.com/kausality-io/function-kausality/gate/systems"
)

// maxPlan is how large a plan may be that is read, in bytes.
const maxPlan = 256 << 20

func terraformCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "terraform", Short: "Judge what Terraform or OpenTofu would do.", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return usageError{fmt.Errorf("say what to judge; see %s --help", cmd.CommandPath())}
	}}
	check := checkPlanCommand()
	check.SilenceErrors, check.SilenceUsage = true, true
	cmd.AddCommand(check)
	return cmd
}

// planFlags of check-plan.
type planFlags struct{ plan, allowances, annotations, output string }

func checkPlanCommand() *cobra.Command {
	f := planFlags{}
	cmd := &cobra.Command{
		Use:   "check-plan",
		Short: "Check a plan action by action against allowances.",
		Long: `Check a plan, as terraform show -json prints it, action by action against allowances.

Of the allowances, those with relation External count. The verbs apply, Create
and Update permit to create, update and import; destroy and Delete permit to
destroy and to forget; replacing takes both. What their externalTarget names
must fit: address, module, name, provider, resource (or type), in which * stands
for any text.

Exit codes: 0 everything is allowed, 1 something is not, 2 the plan or the
allowances cannot be read.`,
		Example: `  terraform plan -out=tfplan && terraform show -json tfplan > plan.json
  kausality terraform check-plan --plan=plan.json --allowances=allowances.yaml
  kubectl get workspace orders -o yaml | kausality terraform check-plan --plan=plan.json --annotations=-`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.InOrStdin(), cmd.OutOrStdout()) },
	}
	cmd.Flags().StringVar(&f.plan, "plan", "", "File with the output of terraform show -json; - for standard input.")
	cmd.Flags().StringVar(&f.allowances, "allowances", "", "File with a list of allowances, JSON or YAML; - for standard input.")
	cmd.Flags().StringVar(&f.annotations, "annotations", "", "File with an object, JSON or YAML, whose annotations hold the allowances; - for standard input.")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "Output: text or json.")
	return cmd
}

// planReport is the JSON output.
type planReport struct {
	Allowed bool `json:"allowed"`
	gate.Plan
	Actions []external.PlanVerdict `json:"actions"`
	// UnknownTargetKeys of allowances, which therefore permit nothing.
	UnknownTargetKeys []string `json:"unknownTargetKeys,omitempty"`
}

// run the check. Everything wrong with the input is a usage error.
func (f planFlags) run(in io.Reader, out io.Writer) error {
	if err := f.check(); err != nil {
		return usageError{err}
	}
	raw, err := input(f.plan, in)
	if err != nil {
		return usageError{fmt.Errorf("--plan: %w", err)}
	}
	plan, err := gate.ReadPlan(raw)
	if err != nil {
		return usageError{err}
	}
	permissions, err := f.permissions(in)
	if err != nil {
		return usageError{err}
	}
	r := planReport{Allowed: true, Plan: plan, Actions: external.CheckPlan(plan.Actions, permissions),
		UnknownTargetKeys: external.UnknownKeys(permissions, external.PlanTargetKeys)}
	refused := 0
	for _, v := range r.Actions {
		if !v.Allowed {
			refused++
		}
	}
	r.Allowed = refused == 0
	if err := f.print(out, r); err != nil {
		return err
	}
	if refused > 0 {
		return fmt.Errorf("%d of %d actions of the plan are not allowed", refused, len(r.Actions))
	}
	return nil
}

func (f planFlags) check() error {
	switch {
	case f.plan == "":
		return fmt.Errorf("--plan is required")
	case (f.allowances == "") == (f.annotations == ""):
		return fmt.Errorf("give either --allowances or --annotations")
	case f.plan == "-" && (f.allowances == "-" || f.annotations == "-"):
		return fmt.Errorf("only one of --plan and the allowances can come from standard input")
	case f.output != "text" && f.output != "json":
		return fmt.Errorf("--output must be text or json, not %q", f.output)
	}
	return nil
}

// input of a flag's file, bounded.
func input(file string, in io.Reader) ([]byte, error) {
	if file != "-" {
		opened, err := os.Open(file) //nolint:gosec // The command line says which file to read.
		if err != nil {
			return nil, err
		}
		defer opened.Close() //nolint:errcheck // Read only.
		in = opened
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxPlan+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxPlan {
		return nil, fmt.Errorf("it is larger than %d bytes", maxPlan)
	}
	return raw, nil
}

func (f planFlags) permissions(in io.Reader) ([]external.Permission, error) {
	if f.allowances != "" {
		raw, err := input(f.allowances, in)
		if err != nil {
			return nil, fmt.Errorf("--allowances: %w", err)
		}
		out, err := external.ParsePermissions(string(raw))
		if err != nil {
			return nil, fmt.Errorf("--allowances: %w", err)
		}
		return out, nil
	}
	raw, err := input(f.annotations, in)
	if err != nil {
		return nil, fmt.Errorf("--annotations: %w", err)
	}
	o := metav1.PartialObjectMetadata{}
	if err := yaml.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("--annotations: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	if o.Kind == "" {
		return nil, fmt.Errorf("--annotations: an object with kind and metadata is expected, as kubectl get -o yaml prints it")
	}
	return carried(o.Annotations)
}

// carried permissions of an object that are not used up: none that it has
// settled for.
func carried(annotations map[string]string) ([]external.Permission, error) {
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

func (f planFlags) print(out io.Writer, r planReport) error {
	if f.output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err := io.WriteString(out, planText(r))
	return err
}
