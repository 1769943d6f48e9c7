// Package terraform runs terraform, tofu, or a program in their place, with the commands and arguments that provider-terraform
// gives it (internal/terraform/terraform.go).
package terraform

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // As the provider does; it identifies content and protects nothing.
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Default is the workspace of Terraform that always exists.
const Default = "default"

// exitDiffers is the exit code of plan where there is a difference.
const exitDiffers = 2

// A Program that runs in a directory.
type Program struct {
	// Path of the program.
	Path string

	// Dir is the working directory, with the configuration.
	Dir string

	// Env are variables beside those of the process, as NAME=VALUE.
	Env []string
}

// An Output of a configuration.
type Output struct {
	Sensitive bool            `json:"sensitive"`
	Value     json.RawMessage `json:"value"`
}

// Init initialises the configuration.
func (p Program) Init(ctx context.Context, args ...string) error {
	_, err := p.run(ctx, append([]string{"init", "-input=false", "-no-color"}, args...)...)
	return err
}

// Select selects a workspace of Terraform, which is created where it does not exist.
func (p Program) Select(ctx context.Context, name string) error {
	if _, err := p.run(ctx, "workspace", "select", "-no-color", name); err == nil {
		return nil
	}
	_, err := p.run(ctx, "workspace", "new", "-no-color", name)
	return err
}

// DeleteCurrent deletes the workspace that is selected, unless it is the default.
func (p Program) DeleteCurrent(ctx context.Context) error {
	out, err := p.run(ctx, "workspace", "show", "-no-color")
	if err != nil {
		return err
	}
	name := strings.TrimSpace(string(out))
	if name == Default {
		return nil
	}
	if err := p.Select(ctx, Default); err != nil {
		return err
	}
	_, err = p.run(ctx, "workspace", "delete", "-no-color", name)
	return err
}

// Differs reports whether plan finds a difference between the configuration and what exists. It takes no lock.
func (p Program) Differs(ctx context.Context, args ...string) (bool, error) {
	_, err := p.run(ctx, append([]string{"plan", "-no-color", "-input=false", "-detailed-exitcode", "-lock=false"}, args...)...)
	var failed *Error
	if errors.As(err, &failed) && failed.Code == exitDiffers {
		return true, nil
	}
	return false, err
}

// Apply applies the configuration.
func (p Program) Apply(ctx context.Context, args ...string) error {
	_, err := p.run(ctx, append([]string{"apply", "-no-color", "-auto-approve", "-input=false"}, args...)...)
	return err
}

// Destroy destroys what the state has.
func (p Program) Destroy(ctx context.Context, args ...string) error {
	_, err := p.run(ctx, append([]string{"destroy", "-no-color", "-auto-approve", "-input=false"}, args...)...)
	return err
}

// Outputs returns the outputs in the state, by name.
func (p Program) Outputs(ctx context.Context) (map[string]Output, error) {
	raw, err := p.run(ctx, "output", "-json")
	if err != nil {
		return nil, err
	}
	out := map[string]Output{}
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("cannot read outputs: %w", err)
	}
	return out, nil
}

// Resources returns the addresses of what the state has. Other than backends, which have an empty state for each workspace, a working
// directory has none before the first apply.
func (p Program) Resources(ctx context.Context) ([]string, error) {
	out, err := p.run(ctx, "state", "list")
	var failed *Error
	if errors.As(err, &failed) && strings.Contains(failed.Summary, "No state file was found") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(out)), nil
}

// Checksum of the working directory, without what init downloads.
func (p Program) Checksum() (string, error) {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // Nothing is written.
	sum := md5.New()   //nolint:gosec // See above.
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (name == ".git" || name == ".terraform/providers") {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		content, err := root.ReadFile(name)
		if err == nil {
			_, err = fmt.Fprintf(sum, "%s %x\n", name, md5.Sum(content)) //nolint:gosec // See above.
		}
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// An Error of the program.
type Error struct {
	// Code is its exit code.
	Code int

	// Summary is the first line of what it reports.
	Summary string
}

// Error has the summary.
func (e *Error) Error() string {
	return fmt.Sprintf("Terraform encountered an error. Summary: %s (exit code %d)", e.Summary, e.Code)
}

var summary = regexp.MustCompile(`Error: (.+)\n`)

// stopDelay is how long the program may take to end after it was interrupted.
const stopDelay = 30 * time.Second

// run the program, and return what it prints. It is terminated when the context ends.
func (p Program) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, p.Path, args...) //nolint:gosec // The program of the provider.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.Dir, append(os.Environ(), p.Env...), stopDelay
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exited *exec.ExitError
	if !errors.As(err, &exited) {
		return stdout.Bytes(), err
	}
	failed := &Error{Code: exited.ExitCode(), Summary: strings.TrimSpace(stderr.String())}
	if m := summary.FindStringSubmatch(stderr.String()); m != nil {
		failed.Summary = m[1]
	}
	return stdout.Bytes(), failed
}
