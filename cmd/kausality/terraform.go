package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kausality-io/function-kausality/cli/checkplan"
	"github.com/kausality-io/function-kausality/cli/choice"
)

// terraformCommand groups checks of Terraform and OpenTofu.
func terraformCommand() *cobra.Command {
	return group("terraform", "Check what Terraform or OpenTofu would do.", checkPlanCommand(), execCommand())
}

// checkPlanCommand has exit codes that pipelines depend on: a mistake in the input
// is 2, as a usage error, so that it differs from a plan that is not allowed.
func checkPlanCommand() *cobra.Command {
	o := checkplan.Options{Getenv: os.Getenv}
	cmd := &cobra.Command{
		Use:   "check-plan",
		Short: "Check a plan action by action against allowances.",
		Long: `Check a plan, as terraform show -json prints it, action by action against allowances.
Without flags the plan is read from standard input, and the environment shows what
is allowed: KAUSALITY_ALLOWED and the like, which Kausality writes into
spec.forProvider.env of a Workspace.

Only allowances with relation External count. The verbs apply, Create and Update
permit to create, update and import; destroy and Delete permit to destroy and to
forget; replacing needs both. Their externalTarget must match: address, module,
name, provider, resource (or type), in which * stands for any text.

Exit codes: 0 everything is allowed, 1 something is not, 2 the plan or the
allowances cannot be read.`,
		Example: `  terraform plan -out=tfplan && terraform show -json tfplan > plan.json
  kausality terraform check-plan --plan=plan.json --allowances=allowances.yaml
  tofu show -json tfplan | kausality terraform check-plan
  kubectl get workspace orders -o yaml | kausality terraform check-plan --plan=plan.json --annotations=-`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in, ok := cmd.InOrStdin().(*os.File); ok && o.Plan == "" && term.IsTerminal(int(in.Fd())) {
				return usageError{fmt.Errorf("give --plan, or the plan on standard input; see %s --help", cmd.CommandPath())}
			}
			err := checkplan.Run(o, cmd.InOrStdin(), cmd.OutOrStdout())
			if refused := (&checkplan.NotAllowedError{}); err == nil || errors.As(err, &refused) || errors.Is(err, checkplan.ErrOutput) {
				return err
			}
			return usageError{err}
		},
	}
	cmd.Flags().StringVar(&o.Plan, "plan", "", "File with the output of terraform show -json; - for standard input, which is the default.")
	cmd.Flags().StringVar(&o.Allowances, "allowances", "", "File with a list of allowances, JSON or YAML; - for standard input.")
	cmd.Flags().StringVar(&o.Annotations, "annotations", "", "File with an object, JSON or YAML, whose annotations hold the allowances; - for standard input.")
	output := choice.One(&o.Output, checkplan.OutputText, checkplan.OutputText, checkplan.OutputJSON)
	cmd.Flags().VarP(output, "output", "o", "Output: "+output.List()+".")
	return cmd
}

// exitRefused is the exit code of exec for a plan that is not allowed. Terraform has 1 and 2.
const exitRefused = 3

// codeError is an error with an exit code of its own. Without an error, nothing is printed: the program that was run has printed why.
type codeError struct {
	code int
	err  error
}

// Error returns the text of the error; "" for none.
func (e codeError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// execCommand runs Terraform in place of what it is the wrapper of, and so passes its exit codes on.
func execCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "exec -- PROGRAM ARGUMENT...",
		Short: "Run Terraform or OpenTofu, and apply only plans that are allowed.",
		Long: `Run a command of Terraform or OpenTofu. Of apply and destroy, the plan is made and
checked first, as check-plan does without flags, and exactly that plan is applied.
Every other command runs as it is.

apply needs -auto-approve, or the file of a plan: the plan that was checked is
applied without a question.

Exit codes: 3 the plan is not allowed, or cannot be read: nothing was applied. 2 the
command line cannot be checked. All others are those of the program.`,
		Example: `  kausality terraform exec -- tofu apply -auto-approve
  kausality terraform exec -- terraform -chdir=infra apply tfplan`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := stopped(cmd.Context())
			defer stop()
			err := checkplan.Exec{Command: args, Getenv: os.Getenv, In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}.Run(ctx)
			var usage *checkplan.UsageError
			var refused *checkplan.RefusedError
			var program *exec.ExitError
			switch {
			case errors.As(err, &usage):
				return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
			case errors.As(err, &refused):
				return codeError{exitRefused, nil}
			case errors.As(err, &program) && program.ExitCode() > 0:
				return codeError{program.ExitCode(), nil}
			}
			return err
		},
	}
}

// stopped returns a context that ends when this process alone is to stop. A terminal interrupts the program, too, which a second interrupt would end
// without unlocking its state.
func stopped(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{syscall.SIGTERM}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		signals = append(signals, os.Interrupt)
	}
	return signal.NotifyContext(context.WithoutCancel(ctx), signals...)
}
