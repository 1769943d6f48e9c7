package webhook

import (
	"context"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/test/controlplane"
)

// patience with what takes seconds at most, on a machine that has other things to do.
const patience = 45 * time.Second

// eventually fails the test unless f returns nil within a time.
func eventually(t *testing.T, what string, within time.Duration, f func(context.Context) error) {
	t.Helper()
	if err := controlplane.Eventually(t.Context(), what, within, f); err != nil {
		t.Fatal(err)
	}
}

// quickly is eventually for what takes milliseconds and is done hundreds of
// times.
func quickly(t *testing.T, what string, within time.Duration, f func() error) {
	t.Helper()
	within = controlplane.Patience(within)
	deadline := time.Now().Add(within)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) || t.Context().Err() != nil {
			t.Fatalf("waited %s for %s: %v", within, what, err)
		}
		<-tick.C
	}
}
