package examples

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

var update = flag.Bool("update", false, "write the expected output")

// functions by the name that the examples use, with the part that serves it.
var functions = map[string]string{
	parts.PatchAndTransform: parts.PatchAndTransform,
	parts.AutoReady:         parts.AutoReady,
	"function-kausality":    parts.Kausality,
}

// wanted is how many examples there are at least (README).
const wanted = 6

// installed is what the tests need: the repository, and Crossplane's CLI.
func installed(t *testing.T) (root, cli string) {
	t.Helper()
	root, err := parts.Root()
	if err != nil {
		t.Fatal(err)
	}
	built, err := parts.Ensure(t.Context(), os.Stdout, "", parts.CrossplaneCLI)
	if err != nil {
		t.Fatal(err)
	}
	return root, built[parts.CrossplaneCLI]
}

// TestRender covers KR-09-03, KR-09-04, KR-09-05, KR-09-08, KR-09-09, KR-09-11, KR-09-14, KR-09-15, KR-08-43.
func TestRender(t *testing.T) {
	root, cli := installed(t)
	folders := examples(t, root)
	ports, validator := serve(t), newValidator(t, root, cli)
	for _, dir := range folders {
		name, err := filepath.Rel(filepath.Join(root, "examples"), dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			got := render(t, cli, dir, ports)
			expected := filepath.Join(dir, "expected.yaml")
			if *update {
				if err := os.WriteFile(expected, got, 0o644); err != nil { //nolint:gosec // Part of the repository.
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(expected)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("-want, +got (go test ./examples -update updates it):\n%s", diff)
			}
			validator.validate(t, dir)
		})
	}
}

// examples are the folders below examples/, at any depth, that something can be
// rendered in.
func examples(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(filepath.Join(root, "examples"), func(path string, _ fs.DirEntry, err error) error {
		if name := filepath.Base(path); name == "xr.yaml" || name == "operation.yaml" {
			out = append(out, filepath.Dir(path))
		}
		return err
	})
	if err != nil || len(out) < wanted {
		t.Fatalf("want %d examples at least, found %v: %v", wanted, out, err)
	}
	return out
}

// end a function as a kubelet does. It has nothing to save and goes at once.
func end(t *testing.T, name string, cmd *exec.Cmd) {
	t.Helper()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	err := controlplane.Eventually(context.Background(), "the end of "+name+" on SIGTERM", 10*time.Second, func(context.Context) error {
		select {
		case <-gone:
			return nil
		default:
			return errors.New("it runs")
		}
	})
	if err != nil {
		t.Error(err)
		_ = cmd.Process.Kill()
		<-gone
	}
}

// serve the functions, and return where.
func serve(t *testing.T) map[string]int {
	t.Helper()
	ports := map[string]int{}
	for name, part := range functions {
		bins, err := parts.Ensure(t.Context(), os.Stdout, "", part)
		if err != nil {
			t.Fatal(err)
		}
		port, err := controlplane.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		address := fmt.Sprintf("127.0.0.1:%d", port)
		var log bytes.Buffer
		args := []string{"--insecure", "--address=" + address}
		if name == "function-kausality" {
			args = append(args, "--metrics-bind-address=0")
		}
		cmd := exec.Command(bins[part], args...) // ended by the clean-up
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			end(t, name, cmd)
			if t.Failed() {
				t.Logf("%s:\n%s", name, log.String())
			}
		})
		wait.For(t, name+" to listen", 20*time.Second, func(ctx context.Context) error {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err != nil {
				return err
			}
			return c.Close()
		})
		ports[name] = port
	}
	return ports
}

var (
	target = regexp.MustCompile(`(name: (\S+)\n(?:.*\n)*?.*render\.crossplane\.io/runtime-development-target: )\S+`)
	// opened: a gate is opened by the clock.
	opened = regexp.MustCompile(`("state":"open".*?"at":)"[^"]+"`)
)

// render an example against the functions that are served. The time at which a
// gate opens becomes a fixed one.
func render(t *testing.T, cli, dir string, ports map[string]int) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "functions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	raw = target.ReplaceAllFunc(raw, func(m []byte) []byte {
		parts := target.FindSubmatch(m)
		return fmt.Appendf(nil, "%slocalhost:%d", parts[1], ports[string(parts[2])])
	})
	file := filepath.Join(t.TempDir(), "functions.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"render", "xr.yaml", "composition.yaml", file, "--include-function-results", "--include-full-xr"}
	if exists(dir, "operation.yaml") {
		args = []string{"alpha", "render", "op", "operation.yaml", file, "--include-function-results"}
	}
	for name, flag := range map[string]string{"observed.yaml": "--observed-resources", "required.yaml": "--required-resources"} {
		if exists(dir, name) {
			args = append(args, flag+"="+name)
		}
	}
	cmd := exec.CommandContext(t.Context(), cli, args...)
	cmd.Dir = dir
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("crossplane %v: %v\n%s", args, err, problems.String())
	}
	return opened.ReplaceAll(out, []byte(`$1"2026-01-05T09:30:05Z"`))
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}
