package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/annotate"
	"github.com/kausality-io/function-kausality/gate/release"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// ungateCommand restores the management policies of masked managed resources.
type ungateCommand struct {
	*session
	arguments
	format       format
	all, removal bool
	dryRun       annotate.DryRun
	yes          bool
	timeout      time.Duration
}

// newUngateCommand returns `kubectl kausality ungate`, which package gate/release
// carries out; `kausality ungate` does the same in a Pod.
func newUngateCommand(s *session) *cobra.Command {
	c := &ungateCommand{session: s}
	cmd := &cobra.Command{
		Use: "ungate TYPE/NAME... | --all", Short: "Restore the managementPolicies that the authors of managed resources wrote.",
		Long: "Restores what the authors of managed resources wrote into spec.managementPolicies, and removes the gate's annotations. The " +
			"external drift that their providers will revert then is listed before you are asked for confirmation. It is permanent only with " +
			"webhook and gate stopped, or in mode log, or with --for-removal, which makes them mask nothing any more; otherwise, run by a user " +
			"other than the gate's, the webhook masks the resources again, and that is an error. " +
			"For a single managed resource, set kausality.io/mode=log on it instead.",
		Example: `  kubectl kausality ungate --all --dry-run

  # Before Kausality is removed; the Helm chart does this by itself
  kubectl kausality ungate --all --for-removal`,
		ValidArgsFunction: completer{s}.objects,
		RunE:              runs(c),
	}
	c.format.add(cmd, formatName, formatJSON, formatYAML)
	cmd.Flags().BoolVar(&c.all, "all", false, "Every managed resource of the cluster.")
	addDryRun(cmd, &c.dryRun, annotate.DryRunClient+" (list what would be restored, and restore nothing)")
	cmd.Flags().BoolVar(&c.removal, "for-removal", false, "With --all: Kausality is to be removed; webhook and gate stop masking.")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 5*time.Minute, "How long --for-removal may take.")
	addYes(cmd, &c.yes)
	return cmd
}

// validate validates the flags, and those that need each other.
func (c *ungateCommand) validate() error {
	if c.all == (len(c.args) > 0) {
		return usageError{fmt.Errorf("name managed resources as TYPE/NAME, or give --all; see %s --help", c.cmd.CommandPath())}
	}
	if c.removal && !c.all {
		return usageError{errors.New("--for-removal is about all managed resources: give --all with it")}
	}
	return nil
}

// run ungates in two passes: a dry run, which lists what providers will revert,
// and, after confirmation, the restoration.
func (c *ungateCommand) run(ctx context.Context) error {
	u := release.Options{DryRun: true, Partial: c.all && !c.removal, Out: c.Out}
	if c.format.value != formatTable {
		u.Out = io.Discard
	}
	var err error
	if u.Config, err = c.config(); err != nil {
		return err
	}
	if !c.all {
		targets, err := c.objects(c.cmd, c.args)
		if err != nil {
			return err
		}
		u.Names = lists.Map(targets, gateName)
	}
	found, err := release.Ungate(ctx, u)
	if left := (&release.LeftOutError{}); found.Masked > 0 && c.dryRun == dryNone && errors.As(err, &left) {
		fmt.Fprintln(c.ErrOut, c.view.yellow(err.Error()))
		err = nil // the restoration reports it again
	}
	if err != nil || c.dryRun != dryNone || found.Masked == 0 && !c.removal {
		return errors.Join(c.report(found, err != nil), err)
	}
	question := fmt.Sprintf("Restore %s? Their providers resume what their authors' policies allow.", channel.Plural(found.Masked, "managed resource"))
	if c.removal {
		question = "Kausality stops enforcing and masking. " + question
	}
	if err := c.confirm(question, c.yes, "; --dry-run shows what would be restored"); err != nil {
		return err
	}
	u.DryRun = false
	done, err := c.restore(ctx, u)
	return errors.Join(c.report(done, err != nil), err)
}

// restore restores once, or permanently with --for-removal.
func (c *ungateCommand) restore(ctx context.Context, u release.Options) (release.Result, error) {
	if !c.removal {
		return release.Ungate(ctx, u)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return release.Remove(ctx, u)
}

// gateName returns how release.Options names managed resources:
// RESOURCE.GROUP/[NAMESPACE/]NAME.
func gateName(t target) string {
	return t.resource + "/" + channel.Part("", t.GetNamespace(), "/") + t.GetName()
}

// ungated is what was restored, as -o json prints it. Objects are RESOURCE.GROUP/[NAMESPACE/]NAME.
type ungated struct {
	Masked   int      `json:"masked"`
	Pending  int      `json:"pending"`
	Restored int      `json:"restored"`
	Unread   int      `json:"unread"`
	Objects  []string `json:"objects"`
}

// report prints the counts. After an error that prevented everything only the error is
// printed.
func (c *ungateCommand) report(done release.Result, failed bool) error {
	out := ungated{Masked: done.Masked, Pending: done.Pending, Restored: done.Restored, Unread: done.Unread, Objects: append([]string{}, done.Objects...)}
	if structured, err := c.format.structured(c.Out, out); structured {
		return err
	}
	if c.format.value == formatName {
		for _, o := range done.Objects {
			resource, _, _ := strings.Cut(o, "/")
			fmt.Fprintln(c.Out, resource+o[strings.LastIndexByte(o, '/'):])
		}
		return nil
	}
	if failed && done.Masked == 0 {
		return nil
	}
	_, err := fmt.Fprintln(c.Out, done)
	return err
}
