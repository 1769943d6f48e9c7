package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/terminal"
)

// tuiCommand shows a terminal in which users look and decide.
type tuiCommand struct {
	*session
	arguments
	plain bool
	mouse bool
	// width and height of the terminal.
	width, height int
	// tty is the terminal; nil for that of the process.
	tty func() (width, height int, err error)
}

// newTUICommand returns `kubectl kausality tui`.
func newTUICommand(s *session) *cobra.Command {
	c := &tuiCommand{session: s}
	cmd := &cobra.Command{
		Use: "tui [TYPE/NAME]", Short: "Show pending changes in the terminal, and decide about them there.",
		Long: "Shows what waits by its cause, each change from the user to the cloud, its difference and votes; and approves, rejects, withdraws, snoozes, " +
			"freezes, unfreezes and makes exceptions as you, after showing what is written. With an object, shows that first. It is live, and ends with q. " +
			"Exits with 2 without a terminal, or in one of less than 40 columns or 10 rows; with 5 where you may not list changes; and with 1 where the cluster " +
			"does not serve them.",
		Example: `  kubectl kausality tui

  # Begin with one object
  kubectl kausality tui xdatabase/orders

  # Line by line, for a screen reader
  kubectl kausality tui --plain`,
		ValidArgsFunction: completer{s}.object,
		RunE:              runs(c),
	}
	cmd.Flags().BoolVar(&c.plain, "plain", false, "Print line by line and prompt, without colours, frames and an alternate screen. So it is where TERM is dumb.")
	cmd.Flags().BoolVar(&c.mouse, "mouse", false, "Scroll with the wheel, and open with a click. To select text, hold the key that your terminal has for it.")
	return cmd
}

// complete completes the form by the terminal.
func (c *tuiCommand) complete(cmd *cobra.Command, args []string) (err error) {
	c.plain = c.plain || os.Getenv("TERM") == "dumb"
	if c.width, c.height, err = c.size(); err != nil {
		return usageError{fmt.Errorf("tui takes a terminal, and standard input or output is none (%w); use kubectl kausality pending", err)}
	}
	return c.arguments.complete(cmd, args)
}

// validate validates the size of the terminal.
func (c *tuiCommand) validate() error {
	if err := terminal.Small(c.width, c.height); err != nil && !c.plain {
		return usageError{err}
	}
	return nil
}

// run runs until the user quits (KR-17-24).
func (c *tuiCommand) run(ctx context.Context) error {
	o, err := c.options(ctx)
	if err != nil {
		return err
	}
	o.Width, o.Height = c.width, c.height
	if len(c.args) > 0 {
		found, err := c.object(c.cmd, c.args)
		if err != nil {
			return err
		}
		o.Open = &v1alpha1.ObjectReference{APIVersion: found.GetAPIVersion(), Kind: found.GetKind(), Namespace: found.GetNamespace(), Name: found.GetName()}
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	show := terminal.Run
	if c.plain {
		show = terminal.Plain
	}
	err = show(ctx, o)
	if kerrors.IsForbidden(err) {
		return unreadError{err}
	}
	return err
}

// size returns the size of the terminal in columns and rows; an error if there is no terminal.
func (c *tuiCommand) size() (width, height int, err error) {
	if c.tty != nil {
		return c.tty()
	}
	in, isIn := c.In.(*os.File)
	out, isOut := c.Out.(*os.File)
	if !isIn || !isOut || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return 0, 0, errors.New("as in a pipe, or in a job")
	}
	return term.GetSize(int(out.Fd()))
}

// options returns the options of the terminal, for the user of the kubeconfig.
func (c *tuiCommand) options(ctx context.Context) (o terminal.Options, err error) {
	o.In, o.Out, o.Environ, o.Mouse = c.In, c.Out, os.Environ(), c.mouse
	if o.Options, o.Cluster, err = c.looks(ctx); err == nil {
		o.Config.WarningHandler = rest.NoWarnings{} // which would be written across the screen
	}
	return o, err
}
