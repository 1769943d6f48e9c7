package playground

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// the playground of all tests.
var the *Playground

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(controlplane.Main(m, func(ctx context.Context) (stop func(), err error) {
		the, err = Start(ctx, os.Getenv("KAUSALITY_PLAYGROUND_DIR"), os.Stderr)
		return the.Stop, err
	}))
}

var fences = regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```")

// step of the page: a block of commands, and the block of what they print that follows it.
type step struct{ commands, prints string }

// stepsOf docs/try.md in their order.
func stepsOf(t *testing.T) (out []step) {
	t.Helper()
	root, err := parts.Root()
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(root, "docs", "try.md"))
	require.NoError(t, err)
	for _, m := range fences.FindAllStringSubmatch(string(raw), -1) {
		switch m[1] {
		case "shell":
			out = append(out, step{commands: m[2]})
		case "text":
			require.NotEmpty(t, out, "the page begins with what is printed")
			require.Empty(t, out[len(out)-1].prints, "two blocks of what %q prints", out[len(out)-1].commands)
			out[len(out)-1].prints = m[2]
		default:
			t.Fatalf("a block of %s: the page has blocks of shell and of text", m[1])
		}
	}
	return out
}

// TestTry: docs/try.md, typed command by command in a playground, prints what the page has.
func TestTry(t *testing.T) {
	root, err := parts.Root()
	require.NoError(t, err)
	steps := stepsOf(t)
	require.Greater(t, len(steps), 15)
	for i, s := range steps {
		if strings.Contains(s.commands, "make demo") {
			continue // the playground that this test has started, and stops
		}
		commands := strings.ReplaceAll(s.commands, "_output/playground/env", the.EnvFile())
		var out string
		check := func(context.Context) error {
			out = types(t, root, commands)
			if err := missing(s.prints, out); err != nil {
				return fmt.Errorf("%w, but %s", err, out)
			}
			return nil
		}
		if reads(commands) {
			wait.For(t, fmt.Sprintf("step %d, %s", i, s.commands), 10*time.Second, check)
		} else if err := check(t.Context()); err != nil {
			t.Fatalf("step %d, %s: %v", i, s.commands, err)
		}
		t.Logf("$ %s%s", s.commands, out)
	}
}

// types commands into a shell that uses the playground, and returns what they print. The page reports how they exit.
func types(t *testing.T, dir, commands string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", ". "+the.EnvFile()+"\n"+commands)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", commands, err)
	}
	return string(out)
}

var reading = regexp.MustCompile(`^(?:kubectl (?:get|wait) |kubectl kausality (?:trace|explain|pending|coverage|approvals)\b|soon |` +
	`curl -s \S+(?: \| grep \S+ \|\| echo \S+)?$|sleep |#)`)

// reads reports whether commands change nothing, so that they can be repeated until the controllers are done.
func reads(commands string) bool {
	for line := range strings.Lines(commands) {
		if !reading.MatchString(strings.TrimRight(line, "\n")) {
			return false
		}
	}
	return true
}

// missing returns an error that names the first line of the page which the output does not have, in their order; nil where it has all of them. In a
// line of the page … matches any text, and an id, a suffix of a name, a generation or an age matches any other.
func missing(page, out string) error {
	lines := strings.Split(out, "\n")
	at := 0
	for want := range strings.Lines(page) {
		want = strings.TrimSpace(want)
		if want == "" || want == "…" {
			continue
		}
		p := pattern(want)
		for at < len(lines) && !p.MatchString(strings.TrimSpace(lines[at])) {
			at++
		}
		if at == len(lines) {
			return fmt.Errorf("it does not print %q", want)
		}
		at++
	}
	return nil
}

var varies = regexp.MustCompile(`…|\bgeneration \d+|\b[0-9a-f]{16}\b|-[0-9a-f]{12}\b|-[0-9a-f]{7}\b|\b[0-9]+[smh]\b|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ| {2,}`)

// pattern of a line.
func pattern(line string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString("^")
	at := 0
	for _, m := range varies.FindAllStringIndex(line, -1) {
		b.WriteString(regexp.QuoteMeta(line[at:m[0]]))
		switch found := line[m[0]:m[1]]; {
		case strings.HasPrefix(found, " "):
			b.WriteString(" +") // columns are as wide as their cells
		case found == "…":
			b.WriteString(".*")
		case strings.HasPrefix(found, "generation "):
			b.WriteString(`generation \d+`)
		default:
			b.WriteString(`\S+`)
		}
		at = m[1]
	}
	b.WriteString(regexp.QuoteMeta(line[at:]) + "$")
	return regexp.MustCompile(b.String())
}

// TestPattern: what may differ in a line, and what may not.
func TestPattern(t *testing.T) {
	for line, c := range map[string]struct {
		out  string
		want bool
	}{
		"orders-da6cb79af0ff, 5m ago":         {"orders-0123456789ab, 12s ago", true},
		"approve 7642947475a29290":            {"approve 0000000000000000", true},
		"vote 1 of 2 …":                       {"vote 1 of 2 for a change", true},
		"vote 2 of 2":                         {"vote 1 of 2", false},
		"ID                 NAMESPACE":        {"ID     NAMESPACE", true},
		"by hans@example.com, approved":       {"by alice@example.com, approved", false},
		"spec.forProvider.size: 20 → 50":      {"spec.forProvider.size: 20 → 70", false},
		"Composition revision x.org-7f3aaaa:": {"Composition revision x.org-1234567:", true},
	} {
		require.Equal(t, c.want, missing(line, c.out) == nil, "%s matches %s", line, c.out)
	}
}
