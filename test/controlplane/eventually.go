package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollInterval of Eventually.
const pollInterval = 100 * time.Millisecond

// Eventually calls f every 100 ms until it returns nil. After Patience(timeout), or when ctx ends, it
// returns the last error of f together with what was waited for. f is called at least once, and its
// context ends with the timeout.
//
// Where a process ends that tests rely on (one of the control plane's own, or one that Serve started),
// Eventually returns that at once: waiting on would hide the reason behind a timeout.
//
// Tests call it by package wait.
func Eventually(ctx context.Context, what string, timeout time.Duration, f func(context.Context) error) error {
	return EventuallyEvery(ctx, pollInterval, what, timeout, f)
}

// EventuallyEvery is Eventually with another interval than 100 ms.
func EventuallyEvery(ctx context.Context, interval time.Duration, what string, timeout time.Duration, f func(context.Context) error) error {
	patience := Patience(timeout)

	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	tick := time.NewTicker(interval)
	defer tick.Stop()

	var last error

	for began := time.Now(); ; {
		err := f(limited)
		if err == nil {
			return nil
		}

		if gone := outages.since(began); gone != nil {
			return fmt.Errorf("cannot wait for %s: %w", what, errors.Join(gone, err))
		}

		// A call that was cut short by the timeout explains less than the one before.
		if last == nil || limited.Err() == nil {
			last = err
		}

		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("gave up waiting for %s: %w", what, errors.Join(context.Cause(ctx), last))
			}

			return fmt.Errorf("waited %s for %s: %w", patience, what, last)
		case <-tick.C:
		}
	}
}
