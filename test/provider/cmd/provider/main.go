// Command provider is the test provider and its cloud, in one binary:
//
//	provider cloud --address=127.0.0.1:9000
//	provider run --kubeconfig=F --cloud-url=http://127.0.0.1:9000
//	provider terraform --kubeconfig=F --program=/usr/local/bin/tofu --dir=/tf
//
// Errors are one line on stderr. The exit status is 2 if the command line is
// invalid, 1 if it fails, and 0 if a signal stops it.
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
)

// version of the provider, as in its User-Agent.
const version = "0.1.0"

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// A command of the binary. Its flags are registered by flags and checked by
// check, which returns an error of one line; then it runs.
type command struct {
	flags func(*flag.FlagSet)
	check func() error
	run   func(context.Context) error
}

const usage = `provider is a Crossplane provider for tests, and the cloud it manages.

  provider cloud        serve the cloud
  provider run          run the provider
  provider terraform    run the provider for Workspaces of Terraform and OpenTofu

"provider cloud --help" and so on list the flags.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute the command line and return the exit status.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	commands := map[string]command{"cloud": cloudCommand(stdout), "run": runCommand(stderr), "terraform": terraformCommand(stderr)}
	if len(args) == 0 {
		printf(stderr, "provider: a command is required: cloud, run or terraform (see provider --help)\n")
		return exitUsage
	}
	if args[0] == "--help" || args[0] == "-h" || args[0] == "help" {
		printf(stdout, usage)
		return 0
	}
	cmd, ok := commands[args[0]]
	if !ok {
		printf(stderr, "provider: unknown command %q: want cloud, run or terraform (see provider --help)\n", args[0])
		return exitUsage
	}
	name := "provider " + args[0]
	err := parse(name, cmd, args[1:], stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		printf(stderr, "%s: %v (see %s --help)\n", name, err, name)
		return exitUsage
	}
	if err := cmd.run(ctx); err != nil {
		printf(stderr, "%s: %v\n", name, err)
		return exitFailed
	}
	return 0
}

// printf prints a message for the user; an error of the stream has no reader.
func printf(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}

// parse the flags of a command.
func parse(name string, cmd command, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	cmd.flags(fs)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			printf(stdout, "%s\n\n", name)
			fs.SetOutput(stdout)
			fs.PrintDefaults()
		}
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return cmd.check()
}
