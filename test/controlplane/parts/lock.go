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
// releases it when the process ends, however it ends. The file stays: only clean removes it.
func lock(ctx context.Context, out io.Writer, path, what string) (unlock func(), err error) {
	for reported := false; ; reported = true {
		f, err := tryLock(path)
		if err != nil {
			return nil, fmt.Errorf("cannot lock the build of %s: %w", what, err)
		}

		if f != nil {
			return func() { _ = f.Close() }, nil
		}

		if !reported {
			_, _ = fmt.Fprintf(out, "waiting for another process that builds %s\n", what)
		}

		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot lock the build of %s: %w", what, context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
}

// tryLock returns the locked file, or nil if another process holds the lock. It opens the file each
// time, so that no lock is taken of a file that has been removed.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}

	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && isAt(f, path) {
		return f, nil
	}

	_ = f.Close()

	if err == nil || errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return nil, nil
	}

	return nil, err
}

// isAt reports whether f is the file at path.
func isAt(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}

	named, err := os.Stat(path)

	return err == nil && os.SameFile(opened, named)
}
