package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// pollInterval of Eventually.
const pollInterval = 100 * time.Millisecond

// Eventually calls f every 100 ms until it returns nil. After Patience(timeout), where a machine that is busy for a part
// of the wait counts as busy for that part, or when ctx ends, it returns the last error of f together with what was waited
// for. f is called at least once, and its context ends with the longest timeout.
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
	limited, cancel := context.WithTimeout(ctx, patience(timeout, mostPatience))
	defer cancel()

	tick := time.NewTicker(interval)
	defer tick.Stop()

	var last error

	began := time.Now()
	idle := budget{left: timeout, at: began}
	waited := func() error {
		return fmt.Errorf("waited %s for %s: %w", time.Since(began).Round(time.Second), what, last)
	}

	for {
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

			return waited()
		case now := <-tick.C:
			if !idle.spend(now, factor(os.ReadFile)) {
				return waited()
			}
		}
	}
}
