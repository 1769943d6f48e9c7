package story

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/kausality-io/function-kausality/test/controlplane"
)

// TestTakenPort: a second demo fails at once and names the port; when the first one ends it is free.
func TestTakenPort(t *testing.T) {
	port, err := controlplane.FreePort()
	if err != nil {
		t.Fatal(err)
	}

	t.Setenv("TMPDIR", t.TempDir())

	release, err := takePort(t.Context(), port, false, io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	want := fmt.Sprintf("port %d is taken", port)
	if _, err := takePort(t.Context(), port, false, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("want the port to be named, got %v", err)
	}

	ended, end := context.WithCancel(t.Context())
	end()

	if _, err := takePort(ended, port, true, io.Discard); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("gave up waiting for port %d", port)) {
		t.Errorf("want a wait that its context ends, got %v", err)
	}

	release()

	// A program that is none of ours is noticed, too.
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		t.Fatal(err)
	}

	if _, err := takePort(t.Context(), port, false, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("want the port to be named, got %v", err)
	}

	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	again, err := takePort(t.Context(), port, false, io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	again()
}
