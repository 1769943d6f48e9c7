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

// errFound ends a command with exitFound. It has no message of its own: the
// command has printed what it found.
var errFound = errors.New("found")

// errUnread ends a command with exitUnread. It has no message of its own: the command has
// printed what it could not read (KR-12-19).
var errUnread = errors.New("unread")

// errDiscounted ends a command with exitDiscounted. It has no message of its own: the command has
// printed why what it wrote has no effect (KR-14-44).
var errDiscounted = errors.New("discounted")

// Finish prints the error of a command on one line and returns the exit code of
// the process; 0 for nil.
func Finish(errOut io.Writer, err error) int {
	if err == nil {
		return 0
	}
	if errors.Is(err, errFound) {
		return exitFound
	}
	if errors.Is(err, errUnread) {
		return exitUnread
	}
	if errors.Is(err, errDiscounted) {
		return exitDiscounted
	}
	fmt.Fprintln(errOut, "error: "+channel.Printable(strings.Join(strings.Fields(err.Error()), " "))) // it may quote the cluster
	if usage := (usageError{}); errors.As(err, &usage) {
		return exitUsage
	}
	if unread := (unreadError{}); errors.As(err, &unread) {
		return exitUnread
	}
	if late := (timeoutError{}); errors.As(err, &late) {
		return exitTimeout
	}
	return exitFailure
}
