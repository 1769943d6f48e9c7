package examples

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

var update = flag.Bool("update", false, "write the expected output anew")

// functions by the name that the examples use, with the program that serves it.
var functions = map[string]parts.Part{
	"function-patch-and-transform": {Name: "test-templating", Dir: "test/templating", Package: "."},
	"function-kausality":           {Name: "kausality", Dir: ".", Package: "./cmd/kausality"},
}

func TestRender(t *testing.T) {
	root, err := parts.Root()
	if err != nil {
		t.Fatal(err)
	}
	cli, err := parts.Ensure(t.Context(), os.Stdout, "", parts.CrossplaneCLI)
	if err != nil {
		t.Fatal(err)
	}
	ports := serve(t)
	folders, err := filepath.Glob(filepath.Join(root, "examples", "*", "xr.yaml"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, xr := range folders {
		dir := filepath.Dir(xr)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			got := render(t, cli[parts.CrossplaneCLI], dir, ports)
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
				t.Errorf("-want, +got (go test ./examples -update writes it anew):\n%s", diff)
			}
		})
	}
}

// serve the functions, and return where.
func serve(t *testing.T) map[string]int {
	t.Helper()
	ports := map[string]int{}
	for name, p := range functions {
		bins, err := parts.Build(t.Context(), os.Stdout, "", p)
		if err != nil {
			t.Fatal(err)
		}
		port, err := controlplane.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		address := fmt.Sprintf("127.0.0.1:%d", port)
		var log bytes.Buffer
		cmd := exec.Command(bins[p.Name], "--insecure", "--address="+address) // ended by the clean-up
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if t.Failed() {
				t.Logf("%s:\n%s", name, log.String())
			}
		})
		if err := controlplane.Eventually(t.Context(), name+" to listen", 20*time.Second, func(ctx context.Context) error {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err != nil {
				return err
			}
			return c.Close()
		}); err != nil {
			t.Fatal(err)
		}
		ports[name] = port
	}
	return ports
}

var target = regexp.MustCompile(`(name: (\S+)\n(?:.*\n)*?.*render\.crossplane\.io/runtime-development-target: )\S+`)

// render an example against the functions that are served.
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
	if _, err := os.Stat(filepath.Join(dir, "observed.yaml")); err == nil {
		args = append(args, "--observed-resources=observed.yaml")
	}
	cmd := exec.CommandContext(t.Context(), cli, args...)
	cmd.Dir = dir
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("crossplane %v: %v\n%s", args, err, problems.String())
	}
	return out
}
