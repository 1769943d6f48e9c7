package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

// decisionOptions are common to the commands that write annotations.
type decisionOptions struct {
	format format
	dryRun string
	yes    bool
}

func (o *decisionOptions) add(cmd *cobra.Command) {
	o.format.add(cmd, formatName, formatJSON, formatYAML)
	cmd.Flags().StringVar(&o.dryRun, "dry-run", "none", "none, client (only print what would be written) or server (send it, store nothing).")
	f := cmd.Flags().Lookup("dry-run")
	f.NoOptDefVal = "client"
	offer(f, "none", "client", "server")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask.")
}

func (o *decisionOptions) check() error {
	if _, err := o.dry(); err != nil {
		return err
	}
	return o.format.check()
}

func (o *decisionOptions) dry() (annotate.DryRun, error) {
	switch o.dryRun {
	case "none":
		return annotate.DryRunNone, nil
	case string(annotate.DryRunClient), string(annotate.DryRunServer):
		return annotate.DryRun(o.dryRun), nil
	}
	return "", usageError{fmt.Errorf("--dry-run must be none, client or server, not %q", o.dryRun)}
}

// written is one annotation of one object.
type written struct {
	Object v1alpha1.ObjectReference `json:"object"`
	annotate.Change
	DryRun annotate.DryRun `json:"dryRun,omitempty"`
	// Warnings and Next are for people: what stands against it, and what
	// happens now.
	Warnings []string `json:"warnings,omitempty"`
	Next     string   `json:"next,omitempty"`

	slashed string
}

// write what is intended.
func (c *cli) write(ctx context.Context, o *decisionOptions, i intended) (written, error) {
	if i.wrong != nil {
		return written{}, i.wrong
	}
	dry, err := o.dry()
	if err != nil {
		return written{}, err
	}
	change, err := i.writer(dry).Annotate(ctx, i.key, i.edit)
	if err != nil {
		return written{}, fmt.Errorf("%s: %w", i.on.describe(), err)
	}
	ref := v1alpha1.ObjectReference{APIVersion: i.on.GetAPIVersion(), Kind: i.on.GetKind(), Namespace: i.on.GetNamespace(), Name: i.on.GetName(), UID: i.on.GetUID()}
	w := written{Object: ref, Change: change, DryRun: dry, slashed: i.on.slashed()}
	if !i.takeBack || !change.Unchanged {
		w.Next = i.next
	}
	if i.warn != nil {
		w.Warnings, err = i.warn(ctx, i.on)
	}
	return w, err
}

// report what was written; what failed besides is told even where something was.
func (c *cli) report(o *decisionOptions, list []written, failed error) error {
	if len(list) == 0 && failed != nil {
		return failed
	}
	if done, err := o.format.structured(c.Out, list); done {
		return errors.Join(err, failed)
	}
	for _, w := range list {
		if o.format.value == formatName {
			fmt.Fprintln(c.Out, w.slashed)
			continue
		}
		c.line(w)
	}
	return failed
}

func (c *cli) line(w written) {
	what := "annotated: " + w.Key
	switch {
	case w.Unchanged && w.After == nil:
		what = "unchanged: it has no " + w.Key
	case w.Unchanged:
		what = "unchanged: " + w.Key + "=" + *w.After
	case w.After == nil:
		what = "annotation removed: " + w.Key
	default:
		what += "=" + *w.After
	}
	switch w.DryRun {
	case annotate.DryRunClient:
		what += " (dry run)"
	case annotate.DryRunServer:
		what += " (server dry run)"
	}
	fmt.Fprintf(c.Out, "%s %s\n", c.paint.bold(w.slashed), what)
	for _, s := range w.Warnings {
		fmt.Fprintln(c.Out, "  "+c.paint.yellow("warning: "+s))
	}
	if w.Next != "" {
		fmt.Fprintln(c.Out, "  "+w.Next)
	}
}

// confirm asks a person at a terminal; without one it needs --yes, or what is to
// be given instead.
func (c *cli) confirm(question string, yes bool, instead string) error {
	if yes {
		return nil
	}
	f, ok := c.In.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return usageError{errors.New("there is no terminal to ask on; give --yes" + instead)}
	}
	fmt.Fprintf(c.ErrOut, "%s [y/N] ", question)
	answer, err := bufio.NewReader(c.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was written")
}

// waitOptions of a command that can wait.
type waitOptions struct {
	wait    bool
	timeout time.Duration
}

func (o *waitOptions) add(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&o.wait, "wait", false, what)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "How long --wait waits; then the exit code is 3.")
}

// pollEvery is how often something that is waited for is looked at.
const pollEvery = 500 * time.Millisecond

// until something holds. f says what it waits for, "" once it has come.
func (o *waitOptions) until(ctx context.Context, f func(context.Context) (waiting string, err error)) error {
	last := ""
	err := wait.PollUntilContextTimeout(ctx, pollEvery, o.timeout, true, func(ctx context.Context) (bool, error) {
		waiting, err := f(ctx)
		if err == nil {
			last = waiting
		}
		return waiting == "", err
	})
	if err != nil && ctx.Err() == nil && wait.Interrupted(err) {
		return timeoutError{fmt.Errorf("waited %s in vain: %s", o.timeout, last)}
	}
	return err
}
