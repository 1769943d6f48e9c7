package controlplane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bare returns a control plane without any process.
func bare(t *testing.T, out io.Writer) *ControlPlane {
	t.Helper()

	d, err := openWorkDir("")
	if err != nil {
		t.Fatal(err)
	}

	c := &ControlPlane{dir: d, out: &syncWriter{w: out}, grace: stopGrace, cancel: func() {}}
	t.Cleanup(c.Stop)

	return c
}

func shell(script string) *exec.Cmd { return exec.Command("sh", "-c", script) }

// awaitLog waits until the log of p holds want, n times.
func awaitLog(t *testing.T, p *Process, want string, n int) {
	t.Helper()

	if err := Eventually(t.Context(), want, 10*time.Second, func(context.Context) error {
		if got := strings.Count(string(readTail(p.Log(), 0)), want); got != n {
			return fmt.Errorf("%d times", got)
		}

		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// awaitGone waits until there is no process of that id.
func awaitGone(t *testing.T, pid int) {
	t.Helper()

	if err := Eventually(t.Context(), "the end of "+strconv.Itoa(pid), 15*time.Second, func(context.Context) error {
		return Gone(pid)
	}); err != nil {
		t.Error(err)
	}
}

func TestStopIsGraceful(t *testing.T) {
	c := bare(t, io.Discard)

	p, err := c.Run(t.Context(), "polite", shell(`trap 'echo bye; exit 3' TERM; echo hi; while :; do sleep 0.1; done`))
	if err != nil {
		t.Fatal(err)
	}

	awaitLog(t, p, "hi", 1)
	p.Stop()
	awaitLog(t, p, "bye", 1)

	if err := p.Err(); err != nil {
		t.Errorf("a process that was stopped has not failed: %v", err)
	}
}

func TestStopKillsAfterGrace(t *testing.T) {
	c := bare(t, io.Discard)
	c.grace = 300 * time.Millisecond

	// Neither the shell nor what it waits for heeds SIGTERM.
	p, err := c.Run(t.Context(), "stubborn", shell(`trap 'echo no' TERM; echo hi; while :; do sleep 0.05; done`))
	if err != nil {
		t.Fatal(err)
	}

	awaitLog(t, p, "hi", 1)

	// The second must not send another SIGTERM.
	go p.Stop()
	awaitLog(t, p, "no", 1)
	p.Stop()
	awaitLog(t, p, "no", 1)
	awaitGone(t, p.Pid())
}

// A program that ends leaves no children behind, though they are not stopped by it.
func TestChildrenEndWithProcess(t *testing.T) {
	c := bare(t, io.Discard)

	p, err := c.Run(t.Context(), "parent", shell(`(trap "" TERM; exec sleep 60) & echo $! is the child`))
	if err != nil {
		t.Fatal(err)
	}

	<-p.Done()

	var child int
	if _, err := fmt.Sscan(string(readTail(p.Log(), 0)), &child); err != nil {
		t.Fatal(err)
	}

	awaitGone(t, child)

	if r := p.current(); !r.reaped {
		t.Error("its id may belong to another process by now, and must not be sent signals")
	}
}

func TestBootIsInterrupted(t *testing.T) {
	c := bare(t, io.Discard)

	err := c.boot(t.Context(), program{
		name:    "server",
		command: func() (*exec.Cmd, error) { return shell("exec sleep 60"), nil },
		ready: func(context.Context) error {
			go c.Stop()
			return errors.New("not yet")
		},
		within: time.Minute,
	})
	if !errors.Is(err, errStopped) {
		t.Errorf("want %v, got %v", errStopped, err)
	}
}

func TestRestart(t *testing.T) {
	c := bare(t, io.Discard)

	p, err := c.Run(t.Context(), "again", shell(`echo hi; exec sleep 60`))
	if err != nil {
		t.Fatal(err)
	}

	awaitLog(t, p, "hi", 1)

	if _, err := c.Run(t.Context(), "again", shell("true")); err == nil {
		t.Error("a second process of that name: want an error")
	}

	first := p.Pid()

	p.Kill()

	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}

	awaitLog(t, p, "hi", 2)

	if p.Pid() == first {
		t.Error("want another process")
	}

	c.Stop()

	if err := p.Restart(); !errors.Is(err, errStopped) {
		t.Errorf("Restart after Stop: want %v, got %v", errStopped, err)
	}
}

func TestContextEndsProcess(t *testing.T) {
	c := bare(t, io.Discard)
	ctx, cancel := context.WithCancel(t.Context())

	p, err := c.Run(ctx, "bound", shell("exec sleep 3600"))
	if err != nil {
		t.Fatal(err)
	}

	cancel()

	err = Eventually(t.Context(), "the process to end", 3*time.Second, func(context.Context) error {
		select {
		case <-p.Done():
			return nil
		default:
			return errors.New("it is still running")
		}
	})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := c.Run(ctx, "late", shell("true")); !errors.Is(err, context.Canceled) {
		t.Errorf("want %v, got %v", context.Canceled, err)
	}
}

func TestProcessEndIsReported(t *testing.T) {
	cases := map[string]struct {
		script string
		want   []string
		reason string
	}{
		"Failure": {
			script: "echo before; echo no such flag >&2; exit 2",
			want:   []string{"x ended: exit status 2", "x.log ends:", "\n  before\n  no such flag"},
			reason: "Both outputs are in the log, and its end in the error.",
		},
		"Success": {
			script: "exit 0",
			want:   []string{"x ended: exit status 0", "x.log is empty"},
			reason: "A server that ends is a failure whatever its status.",
		},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			lines := make(chan string, 9)
			c := bare(t, writerFn(func(b []byte) { lines <- string(b) }))

			p, err := c.Run(t.Context(), "x", shell(tc.script))
			if err != nil {
				t.Fatal(err)
			}

			<-p.Done()

			line := <-lines

			for _, want := range tc.want {
				if !strings.Contains(line, want) || !strings.Contains(p.Err().Error(), want) {
					t.Errorf("%s: want %q in %q and in %q", tc.reason, want, line, p.Err())
				}
			}
		})
	}
}

func TestBootTriesOtherPorts(t *testing.T) {
	cases := map[string]struct {
		first   string
		wantErr string
		tries   int
	}{
		"PortTaken":      {first: "echo listen: address already in use; exit 1", tries: 2},
		"SomethingElse":  {first: "echo no such flag; exit 1", tries: 1, wantErr: "no such flag"},
		"NotInThisLife":  {first: "exec sleep 60", tries: 1, wantErr: "not ready after"},
		"ReadyAtOnceToo": {first: "echo ready; exec sleep 60", tries: 1},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := bare(t, io.Discard)
			tries := 0

			err := c.boot(t.Context(), program{
				name: "server",
				command: func() (*exec.Cmd, error) {
					if tries++; tries == 1 {
						return shell(tc.first), nil
					}

					return shell("echo ready; exec sleep 60"), nil
				},
				ready: func(context.Context) error {
					if !strings.Contains(string(readTail(c.logPath("server"), 0)), "ready") {
						return errors.New("not yet")
					}

					return nil
				},
				within: time.Second,
			})

			if tries != tc.tries {
				t.Errorf("want %d tries, got %d", tc.tries, tries)
			}

			switch {
			case tc.wantErr == "" && err != nil:
				t.Error(err)
			case tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)):
				t.Errorf("want an error with %q, got %v", tc.wantErr, err)
			}
		})
	}
}

// TestHelperOwner is not a test but what TestKilledOwner kills.
func TestHelperOwner(t *testing.T) {
	if os.Getenv("CONTROLPLANE_HELPER") == "" {
		return
	}

	p, err := bare(t, io.Discard).Run(t.Context(), "orphan", shell("exec sleep 60"))
	if err != nil {
		t.Fatal(err)
	}

	fmt.Printf("pid %d\n", p.Pid())
	<-p.Done()
}

// Even if the owner is killed, its processes do not stay.
func TestKilledOwner(t *testing.T) {
	owner := exec.Command(os.Args[0], "-test.run=^TestHelperOwner$")
	owner.Env = append(os.Environ(), "CONTROLPLANE_HELPER=1", "TMPDIR="+t.TempDir())

	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}

	line, _ := bufio.NewReader(out).ReadString('\n')

	var pid int
	if _, err := fmt.Sscanf(line, "pid %d", &pid); err != nil {
		t.Fatalf("%q: %v", line, err)
	}

	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("its process is not there: %v", err)
	}

	_ = owner.Process.Kill()
	_ = owner.Wait()

	awaitGone(t, pid)
}

// TestHelperRunning is not a test but what TestEnd ends.
func TestHelperRunning(t *testing.T) {
	dir := os.Getenv("CONTROLPLANE_RUNNING")
	if dir == "" {
		return
	}

	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()

	d, err := openWorkDir(dir)
	require.NoError(t, err)
	fmt.Println("running")
	<-ctx.Done()
	require.NoError(t, d.close())
}

// A control plane is ended by another process, which gets to know whether one runs.
func TestEnd(t *testing.T) {
	dir := t.TempDir()
	require.ErrorIs(t, End(t.Context(), dir), ErrNotRunning, "there never was one")

	owner := exec.Command(os.Args[0], "-test.run=^TestHelperRunning$")
	owner.Env = append(os.Environ(), "CONTROLPLANE_RUNNING="+dir)

	out, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())

	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "running\n", line)

	_, err = openWorkDir(dir)
	require.ErrorContains(t, err, "a control plane is running in it")
	require.NoError(t, End(t.Context(), dir))

	_, _ = io.Copy(io.Discard, out)
	require.NoError(t, owner.Wait(), "it was killed")
	require.ErrorIs(t, End(t.Context(), dir), ErrNotRunning, "it has ended")
}

type writerFn func([]byte)

func (f writerFn) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}
