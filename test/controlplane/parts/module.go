package parts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// marker is a file, relative to the root of the repository, by which Root knows it.
const marker = "test/parts/kubernetes/go.mod"

// Root returns the root of the repository that the working directory is in.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("cannot find the repository: %w", err)
	}

	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, marker)); err == nil {
			return dir, nil
		}

		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("cannot find the repository: neither %s nor a directory above it has %s", start, marker)
		}
	}
}

// DefaultBinDir returns the directory that built parts go to unless the caller names another.
func DefaultBinDir() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}

	return filepath.Join(root, "bin"), nil
}

// Version returns the version of the part, read from the go.mod of its module. It is empty for a
// part of this repository.
func (p Part) Version() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}

	return p.version(root)
}

func (p Part) version(root string) (string, error) {
	if p.ours() {
		return "", nil
	}

	path := filepath.Join(p.dir(root), "go.mod")

	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the version of %s: %w", p.Name, err)
	}

	f, err := modfile.ParseLax(path, data, nil)
	if err != nil {
		return "", fmt.Errorf("cannot read the version of %s: %w", p.Name, err)
	}

	for _, r := range f.Require {
		if r.Mod.Path == p.Module {
			return r.Mod.Version, nil
		}
	}

	return "", fmt.Errorf("cannot read the version of %s: %s does not require %s", p.Name, path, p.Module)
}

// moduleDir returns the directory with the source of the part's module, which the go command
// downloads if it is not there.
func (p Part) moduleDir(ctx context.Context, root string) (string, error) {
	dir, err := goOutput(ctx, p.dir(root), "list", "-m", "-f", "{{.Dir}}", p.Module)
	if err != nil {
		return "", fmt.Errorf("cannot find the source of %s: %w", p.Module, err)
	}

	if d := strings.TrimSpace(string(dir)); d != "" {
		return d, nil
	}

	out, err := goOutput(ctx, p.dir(root), "mod", "download", "-json", p.Module)
	if err != nil {
		return "", fmt.Errorf("cannot download %s: %w", p.Module, err)
	}

	var m struct{ Dir string }
	if err := json.Unmarshal(out, &m); err != nil || m.Dir == "" {
		return "", fmt.Errorf("cannot find the source of %s: %w", p.Module,
			errors.Join(err, errors.New("go mod download names no directory")))
	}

	return m.Dir, nil
}

// goOutput runs the go command in dir and returns what it prints.
func goOutput(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = goEnv()

	var stderr bytes.Buffer

	cmd.Stderr = &stderr

	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errNoGo
	}

	if cause := outside(stderr.String()); err != nil && cause != nil {
		return nil, cause
	}

	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}

	return out, nil
}

// errNoGo is returned where no go command can be run.
var errNoGo = errors.New("the go command is not in the PATH; install Go 1.26 or later")

// goSettings are those of every go command: no workspace, which would join the modules of the parts to
// the product's, and no cgo.
var goSettings = []string{"GOWORK=off", "CGO_ENABLED=0"}

// compilerMemory lets compilers and linkers collect garbage less often, which saves time. What they write does
// not depend on it.
var compilerMemory = []string{"GOGC=200"}

// goEnv is the environment of every go command: the caller's, with our settings. The flags that buildArgs has
// anyway are left out of GOFLAGS, so that a part which make built is not built again for a go command without them.
func goEnv() []string {
	env := append(os.Environ(), goSettings...)
	if flags, ok := os.LookupEnv("GOFLAGS"); ok {
		others := slices.DeleteFunc(strings.Fields(flags), func(f string) bool { return slices.Contains(compilerFlags, f) })
		env = append(env, "GOFLAGS="+strings.Join(others, " "))
	}

	return env
}
