package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// console is kubectl kausality tui in a pseudo terminal, with its screen.
type console struct {
	t      *testing.T
	f      *os.File
	cmd    *exec.Cmd
	cancel context.CancelFunc
	screen *vt.SafeEmulator
	// raw is all that it has written; mu guards it.
	mu     sync.Mutex
	raw    strings.Builder
	closed sync.WaitGroup
}

// ended is what a process has ended with.
type ended struct {
	code   int
	stderr string
}

// consoleFor is how long a process in a pseudo terminal may take.
const consoleFor = 3 * time.Minute

// tui of a kubeconfig in a terminal of a size.
func tui(t *testing.T, kubeconfig string, cols, rows int, args ...string) *console {
	t.Helper()
	c, err := newConsole(t.Context(), kubeconfig, cols, rows, args...)
	require.NoError(t, err)
	c.t = t
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill() // it is over already
			_, _ = c.end()
		}
	})
	return c
}

// newConsole runs kubectl kausality tui in a terminal of a size.
func newConsole(ctx context.Context, kubeconfig string, cols, rows int, args ...string) (*console, error) {
	ctx, cancel := context.WithTimeout(ctx, consoleFor)
	cmd := exec.CommandContext(ctx, the.bins[parts.KubectlKausality], append([]string{"--kubeconfig=" + kubeconfig, "tui"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+the.Dir(), "TERM=xterm-256color")
	stderr := &strings.Builder{}
	cmd.Stderr = stderr
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(rows), Cols: uint16(cols)}) //nolint:gosec // Sizes of the tests.
	if err != nil {
		cancel()
		return nil, err
	}
	c := &console{f: f, cmd: cmd, cancel: cancel, screen: vt.NewSafeEmulator(cols, rows)}
	c.closed.Go(func() {
		_, _ = io.Copy(io.MultiWriter(c.screen, c), f) // which ends with the process
	})
	go func() { _, _ = io.Copy(f, c.screen) }() // what a terminal answers
	return c, nil
}

// Write records what the process has written.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw.Write(p)
}

// written is all that it has written.
func (c *console) written() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw.String()
}

// end waits for the process.
func (c *console) end() (ended, error) {
	err := c.cmd.Wait()
	c.cancel()
	c.closed.Wait()
	out := ended{stderr: c.cmd.Stderr.(*strings.Builder).String()}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		out.code = exit.ExitCode()
		err = nil
	}
	return out, errors.Join(err, c.f.Close())
}

// ends with a code and a line on standard error.
func (c *console) ends() ended {
	c.t.Helper()
	out, err := c.end()
	require.NoError(c.t, err)
	return out
}

// text of the screen, without the spaces that lines are wrapped by.
func (c *console) text() string {
	var out strings.Builder
	for y := range c.screen.Height() {
		for x := range c.screen.Width() {
			if cell := c.screen.CellAt(x, y); cell != nil {
				out.WriteString(cell.Content)
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

// awaits texts on the screen, in their order.
func (c *console) awaits(want ...string) *console {
	c.t.Helper()
	wait.For(c.t, fmt.Sprintf("the screen to show %q", want), 2*wait.Patience, func(context.Context) error {
		have := c.text()
		rest := strings.Join(strings.Fields(have), " ")
		for _, w := range want {
			_, after, ok := strings.Cut(rest, strings.Join(strings.Fields(w), " "))
			if !ok {
				return fmt.Errorf("it does not show %q:\n%s", w, have)
			}
			rest = after
		}
		return nil
	})
	return c
}

// keys that are typed.
func (c *console) keys(typed string) *console {
	c.t.Helper()
	_, err := io.WriteString(c.f, typed)
	require.NoError(c.t, err)
	return c
}

// Keys of a terminal.
const (
	enter    = "\r"
	escape   = "\x1b"
	pageDown = "\x1b[6~"
)

// to opens the cause of a fixture, by the filter of the first screen.
func (c *console) to(cause string) *console {
	c.t.Helper()
	return c.awaits("What waits:").keys("/"+cause+enter).awaits("Filter: "+cause, "> Composition revision "+cause).keys(enter).awaits("Changes")
}
