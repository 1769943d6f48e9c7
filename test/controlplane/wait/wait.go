package wait

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/test/controlplane"
)

// Patience is enough for what takes seconds at most.
const Patience = 45 * time.Second

// often is the interval of Often.
const often = 5 * time.Millisecond

// For calls f until it returns nil, and fails the test if that takes longer than
// within. what completes the sentence "waited for …". The context of f ends with
// the test or the time.
func For(t testing.TB, what string, within time.Duration, f func(context.Context) error) {
	t.Helper()
	if err := controlplane.Eventually(t.Context(), what, within, f); err != nil {
		t.Fatal(err)
	}
}

// Often is For with an interval of 5 ms, for what takes milliseconds and is done
// hundreds of times.
func Often(t testing.TB, what string, within time.Duration, f func() error) {
	t.Helper()
	err := controlplane.EventuallyEvery(t.Context(), often, what, within, func(context.Context) error { return f() })
	if err != nil {
		t.Fatal(err)
	}
}

// Receive the next value of a channel, the zero value of a closed one.
func Receive[T any](t testing.TB, what string, within time.Duration, from <-chan T) (v T) {
	t.Helper()
	Often(t, what, within, func() error {
		select {
		case v = <-from:
			return nil
		default:
			return errNothing
		}
	})
	return v
}

var errNothing = errors.New("nothing has arrived")

// Pause for d, or until the test ends, where the absence of an event leaves no
// condition to wait for.
func Pause(t testing.TB, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
