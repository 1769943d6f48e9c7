package parts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// tailLines is how many lines of the compiler's output an error shows.
const tailLines = 15

// errDiskFull and errNoNetwork are why a build failed that would otherwise succeed.
var (
	errDiskFull  = errors.New("the disk is full")
	errNoNetwork = errors.New("its modules cannot be downloaded")
)

// build compiles the part and puts it at target.
func (b *builder) build(ctx context.Context, p Part, version, target string) error {
	staged, remove, err := stage(b.binDir, filepath.Base(target))
	if err != nil {
		return fmt.Errorf("cannot build %s: %w", p.label(version), err)
	}
	defer remove()

	if err := b.compile(ctx, p, version, staged); err != nil {
		return err
	}

	if err := install(staged, target); err != nil {
		return fmt.Errorf("cannot put %s in place: %w", p.Name, err)
	}

	return nil
}

// compile builds the part, and shows progress.
func (b *builder) compile(ctx context.Context, p Part, version, output string) error {
	line := startProgress(b.out, p.label(version), p.Cold)

	if err := goBuild(ctx, p, b.root, version, output); err != nil {
		line.fail()
		return err
	}

	line.done()

	return nil
}

// goBuild runs go build in a process group of its own, which it interrupts when ctx ends, so that
// the compilers end too. A part of this repository is copied from go run's cache of executables
// instead, which other clones use as well: linking it takes seconds.
func goBuild(ctx context.Context, p Part, root, version, output string) error {
	args, outputs := []string{"build", "-o", output}, []string(nil)
	if p.ours() {
		args, outputs = []string{"run", "-exec", "cp"}, []string{output}
	}

	if p.Added != "" {
		dir, err := os.MkdirTemp("", "kausality-source-")
		if err != nil {
			return fmt.Errorf("cannot build %s: %w", p.label(version), err)
		}
		defer os.RemoveAll(dir) //nolint:errcheck // The system removes temporary files, too.

		modFile, err := p.addSource(ctx, root, dir)
		if err != nil {
			return err
		}

		args = append(args, "-modfile="+modFile)
	}

	cmd := exec.CommandContext(ctx, "go", slices.Concat(args, p.buildArgs(version), outputs)...)
	cmd.Dir = p.dir(root)
	cmd.Env = append(goEnv(), compilerMemory...)
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
		return fmt.Errorf("cannot build %s: %w", p.label(version), errNoGo)
	}

	if cause := outside(printed.String()); cause != nil {
		return fmt.Errorf("cannot build %s: %w", p.label(version), cause)
	}

	return fmt.Errorf("cannot build %s in %s: %w:\n%s", p.label(version), cmd.Dir, err, tail(printed.String()))
}

// What the go command prints where the disk or the network fails.
var (
	diskCauses    = []string{": no space left on device", ": No space left on device", ": disk quota exceeded", ": Disk quota exceeded"}
	networkCauses = []string{"dial tcp", "proxyconnect tcp", "TLS handshake timeout", "i/o timeout", "module lookup disabled by GOPROXY=off"}
)

// outside returns why the go command failed in one line, if that is not about the code that it builds.
func outside(printed string) error {
	for line := range strings.Lines(printed) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "go: ")

		for _, cause := range diskCauses {
			if before, _, ok := strings.Cut(line, cause); ok {
				fields := strings.Split(before, ": ")
				return fmt.Errorf("%w: %s", errDiskFull, fields[len(fields)-1])
			}
		}

		for _, cause := range networkCauses {
			if strings.Contains(line, cause) {
				return fmt.Errorf("%w: %s", errNoNetwork, line)
			}
		}
	}

	return nil
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
