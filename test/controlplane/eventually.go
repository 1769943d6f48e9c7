package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollInterval is how often Eventually looks.
const pollInterval = 100 * time.Millisecond

// Eventually calls f every 100 ms until it returns nil. After timeout, or when ctx ends, it returns
// the last error of f together with what was waited for. f is called at least once, and its context
// ends with the timeout.
func Eventually(ctx context.Context, what string, timeout time.Duration, f func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	tick := time.NewTicker(pollInterval)
	defer tick.Stop()

	var last error

	for {
		err := f(limited)
		if err == nil {
			return nil
		}

		// A call that was cut short by the timeout says less than the one before.
		if last == nil || limited.Err() == nil {
			last = err
		}

		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("gave up waiting for %s: %w", what, errors.Join(context.Cause(ctx), last))
			}

			return fmt.Errorf("waited %s for %s: %w", timeout, what, last)
		case <-tick.C:
		}
	}
}
