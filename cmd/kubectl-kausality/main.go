// Command kubectl-kausality is Kausality for people at a terminal: kubectl finds
// it as `kubectl kausality`. It shows who caused what, what would happen and
// why, what waits for approval and what is not protected, and writes people's
// decisions as annotations. It needs nothing in the cluster but what the
// webhook, the gate and the function leave in the objects.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
)

// Exit codes, as docs/kubectl.md has them.
const (
	exitFailure = 1
	exitUsage   = 2
	// exitTimeout: what was waited for did not happen in time.
	exitTimeout = 3
	// exitFound: --exit-code was given, and there is something.
	exitFound = 4
)

// usageError is a mistake in the command line.
type usageError struct{ error }

// timeoutError says what was waited for in vain.
type timeoutError struct{ error }

// errFound ends a command with exitFound and no message: it was printed.
var errFound = errors.New("found")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	klog.SetLogger(logr.Discard()) // client libraries have nothing to say to people that an error does not
	cmd, err := root(streams)
	if err == nil {
		err = cmd.ExecuteContext(ctx)
	}
	stop()
	os.Exit(finish(streams, err))
}

// finish prints an error on one line and returns the exit code.
func finish(streams genericiooptions.IOStreams, err error) int {
	if err == nil {
		return 0
	}
	if errors.Is(err, errFound) {
		return exitFound
	}
	fmt.Fprintln(streams.ErrOut, "error: "+strings.Join(strings.Fields(err.Error()), " "))
	if usage := (usageError{}); errors.As(err, &usage) {
		return exitUsage
	}
	if late := (timeoutError{}); errors.As(err, &late) {
		return exitTimeout
	}
	return exitFailure
}
