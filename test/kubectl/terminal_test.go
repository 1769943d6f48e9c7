package kubectl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// result of one run of the plugin.
type result struct {
	out  string
	code int
}

// limit of one run; --wait has its own.
const limit = 90 * time.Second

// terminal runs the plugin in a pseudo terminal, as hans, and types the answer
// once it asks for confirmation.
func (l *environment) terminal(t *testing.T, typed string, args ...string) result {
	t.Helper()
	return l.meanwhile(t, func() {}, typed, args...)
}

// meanwhile calls happens between the question for confirmation and the answer.
func (l *environment) meanwhile(t *testing.T, happens func(), typed string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := l.command(ctx, args...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 200})
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // Nothing is left to lose.
	var out bytes.Buffer
	buf := make([]byte, 4096)
	for {
		n, err := f.Read(buf)
		out.Write(buf[:n])
		if typed != "" && strings.HasSuffix(out.String(), "[y/N] ") {
			happens()
			if _, err := io.WriteString(f, typed); err != nil {
				t.Fatal(err)
			}
			typed = ""
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.EIO) { // EIO is how Linux ends a terminal
				t.Fatal(err)
			}
			break
		}
	}
	return result{strings.ReplaceAll(out.String(), "\r\n", "\n"), code(t, cmd.Wait())}
}

// pipe runs the plugin without a terminal.
func (l *environment) pipe(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := l.command(ctx, args...).CombinedOutput()
	return result{string(out), code(t, err)}
}

// structured runs the plugin without a terminal, and reads what it wrote as JSON.
func (l *environment) structured(t *testing.T, into any, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := l.command(ctx, append(args, "-o", "json")...).Output()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v: %v in:\n%s", args, err, out)
	}
}

func (l *environment) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, l.plugin, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.hans, "TERM=xterm", "HOME="+l.Dir())
	return cmd
}

func code(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	exit := &exec.ExitError{}
	if !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return exit.ExitCode()
}

// What differs from run to run, in the order it is replaced.
var varying = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{pattern: regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), with: "<time>"},
	{pattern: regexp.MustCompile(`\b\d+(s|m|m\d+s) ago`), with: "<age> ago"},
	{pattern: regexp.MustCompile(`(since|,) \d+(s|m|m\d+s)(\n|:|$)`), with: "$1 <age>$3"},
	{pattern: regexp.MustCompile(`(?m)^(  [0-9a-f]{16,32}   )\d+(s|m|m\d+s) +`), with: "$1<age>  "},
	{pattern: regexp.MustCompile(`(?m)^(  ID +)AGE +`), with: "${1}AGE    "},
	{pattern: regexp.MustCompile(`(uid: |"uid": ")[0-9a-f-]{36}`), with: "$1<uid>"},
	{pattern: regexp.MustCompile(`xdatabases\.example\.org-[0-9a-f]{7}`), with: "<revision>"},
	{pattern: regexp.MustCompile(`(?m)^(<revision>(?: +\d+){3} +)\d+(s|m|m\d+s) +`), with: "$1<age>  "},
	{pattern: regexp.MustCompile(`orders-[0-9a-f]{12}`), with: "orders-<hash>"},
	{pattern: regexp.MustCompile(`/[^ ]*/(bin|testdata)/`), with: "$1/"},
}

// ids of differences depend on the name of the external resource, which has a random part.
var ids = regexp.MustCompile(`\b[0-9a-f]{16,32}\b`)

// screen is the output as it is compared: colours visible, without what varies. Ids are
// numbered, so that equal ones stay equal.
func (r result) screen() string {
	s := strings.ReplaceAll(r.out, "\x1b[", "␛[")
	for _, v := range varying {
		s = v.pattern.ReplaceAllString(s, v.with)
	}
	seen := map[string]string{}
	return ids.ReplaceAllStringFunc(s, func(id string) string {
		if seen[id] == "" {
			seen[id] = fmt.Sprintf("<id %d>", len(seen)+1)
		}
		return seen[id]
	})
}

// has reports where an output has not a text in it.
func (r result) has(t *testing.T, wantCode int, want string) {
	t.Helper()
	if r.code != wantCode || !strings.Contains(r.out, want) {
		t.Errorf("exit code %d, want %d with %q in:\n%s", r.code, wantCode, want, r.out)
	}
}

// golden compares a screen with testdata.
func (r result) golden(t *testing.T, name string, wantCode int) {
	t.Helper()
	if r.code != wantCode {
		t.Errorf("%s: exit code %d, want %d:\n%s", name, r.code, wantCode, r.out)
	}
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(r.screen()), 0o644); err != nil { //nolint:gosec // Part of the repository.
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	if got := r.screen(); got != string(want) {
		t.Errorf("%s: the screen is not as in testdata; want:\n%s\ngot:\n%s", name, want, got)
	}
}
