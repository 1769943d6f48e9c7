package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// lockPoll is how often a lock that another process holds is tried.
const lockPoll = 200 * time.Millisecond

// lock takes the lock file at path, which it creates, and returns what releases it. The system
// releases it when the process ends, however it ends. The file stays: removing it would let two
// builders hold "the" lock.
func lock(ctx context.Context, out io.Writer, path, what string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the build of %s: %w", what, err)
	}

	for reported := false; ; reported = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}

		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("cannot lock the build of %s: %w", what, err)
		}

		if !reported {
			_, _ = fmt.Fprintf(out, "waiting for another process that builds %s\n", what)
		}

		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("cannot lock the build of %s: %w", what, context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
}
