package parts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// tailLines is how many lines of the compiler's output an error shows.
const tailLines = 15

// build compiles the part and puts it at target. A part of this repository is linked in place: the
// go command leaves a program that is up to date alone, which a temporary file would prevent.
func (b *builder) build(ctx context.Context, p Part, version, target string) error {
	staged := target
	if !p.ours() {
		staged = filepath.Join(b.binDir, "."+filepath.Base(target)+".new")

		_ = os.Remove(staged)   // A builder that was killed may have left one. We hold the lock.
		defer os.Remove(staged) //nolint:errcheck // Gone already if all went well.
	}

	line := startProgress(b.out, p.label(version), p.Cold)

	if err := goBuild(ctx, p, b.root, version, staged); err != nil {
		line.fail()
		return err
	}

	if staged != target {
		if err := os.Rename(staged, target); err != nil {
			line.fail()
			return fmt.Errorf("cannot put %s in place: %w", p.Name, err)
		}
	}

	line.done()

	return nil
}

// goBuild runs go build in a process group of its own, which it interrupts when ctx ends, so that
// the compilers end too.
func goBuild(ctx context.Context, p Part, root, version, output string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath",
		"-ldflags", p.linkerFlags(version), "-o", output, p.pkg())
	cmd.Dir = p.dir(root)
	cmd.Env = goEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 5 * time.Second

	var printed bytes.Buffer

	cmd.Stdout, cmd.Stderr = &printed, &printed

	err := cmd.Run()

	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("cannot build %s: %w", p.label(version), context.Cause(ctx))
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("cannot build %s: the go command is not in the PATH; install Go 1.26 or later", p.label(version))
	default:
		return fmt.Errorf("cannot build %s in %s: %w:\n%s", p.label(version), cmd.Dir, err, tail(printed.String()))
	}
}

// tail returns the last lines of what the go command printed, indented, without its download
// messages.
func tail(printed string) string {
	var lines []string

	for line := range strings.Lines(printed) {
		if line = strings.TrimRight(line, "\r\n"); line != "" && !strings.HasPrefix(line, "go: downloading ") {
			lines = append(lines, "  "+line)
		}
	}

	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
