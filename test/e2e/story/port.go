package story

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kausality-io/function-kausality/test/controlplane"
)

// webhookPort is where provider-kubernetes serves its webhooks. No flag changes it, so that one control
// plane with this provider runs at a time on a machine.
const webhookPort = 9443

// portWait is how long a test waits for another one that has the port.
const portWait = 20 * time.Minute

// takePort reserves a port for the programs of this repository until release is called. Where another demo or test run has it, wait
// decides whether to wait for it or to fail at once.
func takePort(ctx context.Context, port int, wait bool, out io.Writer) (release func(), err error) {
	file := filepath.Join(os.TempDir(), fmt.Sprintf("kausality-port-%d.lock", port))

	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o666) //nolint:gosec // Other users lock it, too.
	if err != nil {
		return nil, fmt.Errorf("cannot reserve port %d: %w", port, err)
	}

	take := func(context.Context) error { return tryPort(f, port) }

	err = take(ctx)
	if err != nil && wait {
		_, _ = fmt.Fprintf(out, "waiting for port %d: %v\n", port, err)
		err = controlplane.Eventually(ctx, fmt.Sprintf("port %d", port), portWait, take)
	}

	if err != nil {
		_ = f.Close()
		return nil, err
	}

	return func() { _ = f.Close() }, nil
}

// tryPort locks the file, and returns an error unless nothing listens on the port.
func tryPort(f *os.File, port int) error {
	taken := fmt.Errorf("port %d is taken, and provider-kubernetes can listen on no other: "+
		"end the demo, the tests or the program that uses it, and run this again", port)

	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return taken
	case err != nil:
		return fmt.Errorf("cannot reserve port %d: %w", port, err)
	}

	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)

		return fmt.Errorf("%w (%w)", taken, err)
	}

	return l.Close()
}
