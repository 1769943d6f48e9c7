package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// A control plane ends with Stop as well as with its context, takes everything it started with it,
// and leaves a directory that the next one can use.
func TestStopLeavesNothingBehind(t *testing.T) {
	t.Parallel()

	dir := filepath.Join(t.TempDir(), "cp")

	cases := []struct {
		name string
		end  func(*controlplane.ControlPlane, context.CancelFunc)
	}{
		{name: "Stop", end: func(c *controlplane.ControlPlane, _ context.CancelFunc) { c.Stop() }},
		{name: "Context", end: func(_ *controlplane.ControlPlane, cancel context.CancelFunc) { cancel() }},
	}

	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()

			c, err := controlplane.Start(ctx, controlplane.Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Stop()

			if _, err := controlplane.Start(ctx, controlplane.Options{Dir: dir}); err == nil {
				t.Error("a second control plane in the same directory: want an error")
			}

			pids := startedPids(t, c)

			tc.end(c, cancel)

			wait.For(t, "the end of all processes", 20*time.Second, func(context.Context) error {
				for what, pid := range pids {
					if err := controlplane.Gone(pid); err != nil {
						return fmt.Errorf("%s: %w", what, err)
					}
				}

				return nil
			})

			c.Stop() // Again, and after the context: nothing happens.

			if err := c.Err(); err != nil {
				t.Errorf("after an orderly end: %v", err)
			}

			if _, err := os.Stat(filepath.Join(dir, "logs", "kube-apiserver.log")); err != nil {
				t.Errorf("the log is gone: %v", err)
			}

			if _, err := c.Run(t.Context(), "late", exec.Command("sleep", "60")); err == nil {
				t.Error("Run after the end: want an error")
			}
		})
	}
}

// startedPids starts a program with a child of its own, and returns the ids of all processes.
func startedPids(t *testing.T, c *controlplane.ControlPlane) map[string]int {
	t.Helper()

	pids := map[string]int{}
	for _, name := range []string{parts.Etcd, parts.KubeAPIServer, parts.KubeControllerManager} {
		pids[name] = c.Process(name).Pid()
	}

	p, err := c.Run(t.Context(), "mine", exec.Command("sh", "-c", "sleep 60 & echo $!; wait"))
	if err != nil {
		t.Fatal(err)
	}

	pids["mine"] = p.Pid()

	wait.For(t, "the child", 20*time.Second, func(context.Context) error {
		data, err := os.ReadFile(p.Log())
		if err != nil {
			return err
		}

		var child int
		if _, err := fmt.Sscan(string(data), &child); err != nil {
			return err
		}

		pids["child"] = child

		return nil
	})

	return pids
}

// When a part of the control plane dies, Err and Out report it, with the end of its log. It is not
// parallel to others: what they wait for would fail with the process.
func TestDeathIsReported(t *testing.T) {
	var out safeBuffer

	c, err := controlplane.Start(t.Context(), controlplane.Options{Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()

	p := c.Process(parts.KubeControllerManager)
	p.Signal(syscall.SIGKILL)

	<-p.Done()

	for _, want := range []string{"kube-controller-manager ended: signal: killed", p.Log()} {
		if err := c.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Err: want %q, got: %v", want, err)
		}

		wait.For(t, "the report", 20*time.Second, func(context.Context) error {
			if !strings.Contains(out.String(), want) {
				return fmt.Errorf("want %q in: %s", want, out.String())
			}

			return nil
		})
	}

	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}

	if err := c.Err(); err != nil {
		t.Errorf("after Restart: %v", err)
	}

	if _, err := kubernetes.NewForConfigOrDie(c.Config()).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}

	dir := c.Dir()

	c.Stop()

	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the temporary directory is still there: %v", err)
	}
}

// A boot that is interrupted, at whatever point, ends with an error and leaves nothing.
func TestInterruptedBoot(t *testing.T) {
	t.Parallel()

	for _, booted := range []string{"", parts.Etcd, parts.KubeAPIServer} {
		t.Run("after "+booted, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()

			var out safeBuffer

			go func() {
				_ = controlplane.Eventually(ctx, booted, time.Minute, func(context.Context) error {
					if !strings.Contains(out.String(), booted) {
						return errors.New("not yet")
					}

					return nil
				})

				cancel()
			}()

			dir := filepath.Join(t.TempDir(), "cp")

			if _, err := controlplane.Start(ctx, controlplane.Options{Dir: dir, Out: &out}); !errors.Is(err, context.Canceled) {
				t.Errorf("want %v, got %v", context.Canceled, err)
			}

			// Whatever was started has the directory among its arguments.
			wait.For(t, "the end of all processes", 20*time.Second, func(context.Context) error {
				if got := commandLinesWith(t, dir); len(got) > 0 {
					return fmt.Errorf("there are %q", got)
				}

				return nil
			})
		})
	}
}

// A boot that fails names the process and a log that can still be read, and leaves nothing else.
func TestFailedBoot(t *testing.T) {
	tmp, assets := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("KUBEBUILDER_ASSETS", assets)

	etcd := "#!/bin/sh\necho no such flag >&2\nexit 2\n"
	if err := os.WriteFile(filepath.Join(assets, parts.Etcd), []byte(etcd), 0o700); err != nil { //nolint:gosec // A program.
		t.Fatal(err)
	}

	_, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err == nil {
		t.Fatal("want an error")
	}

	left, _ := filepath.Glob(filepath.Join(tmp, "*", "*", "*"))
	if len(left) != 1 {
		t.Fatalf("want one log to be left, but there are %q", left)
	}

	for _, want := range []string{"cannot boot etcd: etcd ended: exit status 2", left[0] + " ends:\n  no such flag"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in: %v", want, err)
		}
	}
}
