package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/cli/checkplan"
	"github.com/kausality-io/function-kausality/cli/choice"
)

// terraformCommand groups checks of Terraform and OpenTofu.
func terraformCommand() *cobra.Command {
	return group("terraform", "Check what Terraform or OpenTofu would do.", checkPlanCommand())
}

// checkPlanCommand has exit codes that pipelines depend on: a mistake in the input
// is 2, as a usage error, so that it differs from a plan that is not allowed.
func checkPlanCommand() *cobra.Command {
	o := checkplan.Options{}
	cmd := &cobra.Command{
		Use:   "check-plan",
		Short: "Check a plan action by action against allowances.",
		Long: `Check a plan, as terraform show -json prints it, action by action against allowances.

Only allowances with relation External count. The verbs apply, Create and Update
permit to create, update and import; destroy and Delete permit to destroy and to
forget; replacing needs both. Their externalTarget must match: address, module,
name, provider, resource (or type), in which * stands for any text.

Exit codes: 0 everything is allowed, 1 something is not, 2 the plan or the
allowances cannot be read.`,
		Example: `  terraform plan -out=tfplan && terraform show -json tfplan > plan.json
  kausality terraform check-plan --plan=plan.json --allowances=allowances.yaml
  kubectl get workspace orders -o yaml | kausality terraform check-plan --plan=plan.json --annotations=-`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := checkplan.Run(o, cmd.InOrStdin(), cmd.OutOrStdout())
			if refused := (&checkplan.NotAllowedError{}); err == nil || errors.As(err, &refused) || errors.Is(err, checkplan.ErrOutput) {
				return err
			}
			return usageError{err}
		},
	}
	cmd.Flags().StringVar(&o.Plan, "plan", "", "File with the output of terraform show -json; - for standard input.")
	cmd.Flags().StringVar(&o.Allowances, "allowances", "", "File with a list of allowances, JSON or YAML; - for standard input.")
	cmd.Flags().StringVar(&o.Annotations, "annotations", "", "File with an object, JSON or YAML, whose annotations hold the allowances; - for standard input.")
	output := choice.One(&o.Output, checkplan.OutputText, checkplan.OutputText, checkplan.OutputJSON)
	cmd.Flags().VarP(output, "output", "o", "Output: "+output.List()+".")
	return cmd
}
