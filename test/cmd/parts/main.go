// Command parts builds the programs that the tests and the demo run, if they are not there yet, and
// prints their paths, one per line, in the order of the arguments.
//
//	go run ./cmd/parts [--bin DIR] NAME…
//	go run ./cmd/parts [--bin DIR] --tests
//	go run ./cmd/parts --list
//	go run ./cmd/parts [--bin DIR] --clean
//
// --tests builds everything that make test runs, and prints nothing but progress. --clean removes what
// was built, also from the user's cache.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)

	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)

	stop()

	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run does what the arguments request. Paths go to out, progress and usage to progress.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	fs := flag.NewFlagSet("parts", flag.ContinueOnError)
	fs.SetOutput(progress)
	bin := fs.String("bin", "", "directory for the programs (default: bin in the repository)")
	tests := fs.Bool("tests", false, "build everything that make test runs, and fetch the CRDs it installs")
	clean := fs.Bool("clean", false, "remove the parts and the user's cache of them")
	list := fs.Bool("list", false, "list the parts, their versions and whether they are built")

	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case *list:
		return printList(out, *bin)
	case *clean:
		return parts.Clean(ctx, progress, *bin)
	case *tests:
		return parts.Prepare(ctx, progress, *bin, parts.ForMore()...)
	case fs.NArg() == 0:
		return errors.New("cannot build nothing: name a part; --list shows them")
	}

	paths, err := parts.Ensure(ctx, progress, *bin, fs.Args()...)
	if err != nil {
		return err
	}

	for _, name := range fs.Args() {
		_, _ = fmt.Fprintln(out, paths[name])
	}

	return nil
}

// printList prints one line for each part: name, version, built or missing.
func printList(out io.Writer, bin string) error {
	for _, p := range parts.All() {
		version, err := p.Version()
		if err != nil {
			return err
		}

		missing, err := parts.Missing(bin, p.Name)
		if err != nil {
			return err
		}

		state := "built"

		switch {
		case version == "":
			version, state = "-", "of this repository"
		case len(missing) > 0:
			state = fmt.Sprintf("missing (about %s with a cold cache)", p.Cold)
		}

		_, _ = fmt.Fprintf(out, "%-24s %-9s %s\n", p.Name, version, state)
	}

	return nil
}
