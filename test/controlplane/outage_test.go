package controlplane

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"
)

var errNotYet = errors.New("not yet")

// waiting returns what a wait that nothing ends comes to, within a time that a test can spend.
func waiting(t *testing.T) error {
	t.Helper()

	return Eventually(t.Context(), "what never comes", time.Minute, func(context.Context) error { return errNotYet })
}

// A served process that ends on its own fails the test that waits, with name, status and log, and runs
// again for the next test.
func TestServedProcessEnds(t *testing.T) {
	c := bare(t, io.Discard)

	p, err := c.Serve(t.Context(), "provider", shell("echo begun; exec sleep 60"))
	if err != nil {
		t.Fatal(err)
	}

	awaitLog(t, p, "begun", 1)

	first := p.Pid()
	if err := syscall.Kill(first, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}

	err = waiting(t)
	for _, want := range []string{"provider ended", "started again", "begun", "what never comes", errNotYet.Error()} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("want %q in: %v", want, err)
		}
	}

	if err := Eventually(t.Context(), "the process to run again", 10*time.Second, func(context.Context) error {
		if p.Pid() == first || !p.running() {
			return errNotYet
		}

		return nil
	}); err != nil {
		t.Errorf("the next test fails, too: %v", err)
	}
}

// An end that no test waited for fails the next one that waits, once.
func TestUnobservedEnd(t *testing.T) {
	c := bare(t, io.Discard)
	outages.add(&outage{plane: c, err: errors.New("provider ended"), at: time.Now()})

	if err := waiting(t); !strings.Contains(err.Error(), "provider ended") {
		t.Errorf("want the end to be reported, got %v", err)
	}

	if err := outages.since(time.Now()); err != nil {
		t.Errorf("it is reported twice: %v", err)
	}
}

// A process that ends repeatedly is given up, and every test fails for that reason, at once.
func TestServedProcessGivenUp(t *testing.T) {
	c := bare(t, io.Discard)

	p, err := c.Serve(t.Context(), "provider", shell("exit 1"))
	if err != nil {
		t.Fatal(err)
	}

	for deadline := time.Now().Add(time.Minute); ; {
		err := waiting(t)
		if strings.Contains(err.Error(), "is gone") {
			break
		}

		if time.Now().After(deadline) {
			t.Fatalf("it is not given up: %v", err)
		}
	}

	began := time.Now()
	if err := waiting(t); !strings.Contains(err.Error(), "provider ended: exit status 1") || time.Since(began) > 10*time.Second {
		t.Errorf("want the reason at once, got it after %s: %v", time.Since(began), err)
	}

	if p.running() {
		t.Error("it is running")
	}

	c.Stop()

	if err := outages.since(began); err != nil {
		t.Errorf("a control plane that is stopped fails the tests of others: %v", err)
	}
}

// Stopping a served process is no outage, and it stays stopped.
func TestServedProcessStopped(t *testing.T) {
	c := bare(t, io.Discard)

	p, err := c.Serve(t.Context(), "provider", shell("exec sleep 60"))
	if err != nil {
		t.Fatal(err)
	}

	p.Stop()

	if err := outages.since(time.Time{}); err != nil || p.running() {
		t.Errorf("want it to be stopped and nothing reported, got %v", err)
	}
}
