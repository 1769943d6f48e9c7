package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kausality-io/function-kausality/channel"
)

// Exit codes, documented in docs/kubectl.md.
const (
	exitFailure = 1
	exitUsage   = 2
	// exitTimeout: --wait ran into its --timeout.
	exitTimeout = 3
	// exitFound: --exit-code was given, and there is something to report.
	exitFound = 4
	// exitUnread: the answer is incomplete, since the user may not read what it depends on.
	exitUnread = 5
	// exitDiscounted: what was written has no effect, as a vote that does not count.
	exitDiscounted = 6
)

// usageError is a mistake in the command line.
type usageError struct{ error }

// timeoutError names what did not happen in time.
type timeoutError struct{ error }

// unreadError is that the user may not read what there is no answer without.
type unreadError struct{ error }

// Unwrap implements errors.Unwrap.
func (e unreadError) Unwrap() error { return e.error }

// printedError ends a command with an exit code. It has no message of its own: the command has printed what it found, what it
// could not read (KR-12-19), or why what it wrote has no effect (KR-14-44).
type printedError int

const (
	errFound      = printedError(exitFound)
	errUnread     = printedError(exitUnread)
	errDiscounted = printedError(exitDiscounted)
)

// foundIf is errFound where a command was given --exit-code and has found something; nil otherwise.
func foundIf(is bool) error {
	if is {
		return errFound
	}
	return nil
}

// Error names the exit code; it is not printed.
func (e printedError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Finish prints the error of a command on one line and returns the exit code of
// the process; 0 for nil.
func Finish(errOut io.Writer, err error) int {
	if err == nil {
		return 0
	}
	if printed, ok := errors.AsType[printedError](err); ok {
		return int(printed)
	}
	fmt.Fprintln(errOut, "error: "+channel.Printable(strings.Join(strings.Fields(err.Error()), " "))) // it may quote the cluster
	switch {
	case errors.As(err, new(usageError)):
		return exitUsage
	case errors.As(err, new(unreadError)):
		return exitUnread
	case errors.As(err, new(timeoutError)):
		return exitTimeout
	}
	return exitFailure
}
