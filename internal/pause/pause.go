package pause

import (
	"context"
	"time"
)

// For waits for a time that no change of a clock alters. It returns false if the context ends first.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
