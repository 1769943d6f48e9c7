package campaign

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Product are the directories that the results of all campaigns depend on, relative to the root of the repository.
var Product = []string{"admission", "api", "fn", "gate", "webhook", "internal", "package"}

// Installed are the directories of what campaigns on control planes start, install and read, but for the product.
var Installed = []string{"cmd", "test/auditlog", "test/cloudstate", "test/controlplane", "test/e2e/story", "test/figures", "test/provider"}

// Repository is a Git repository by a directory in it.
type Repository string

// At is the root of the repository that a directory belongs to.
func At(dir string) (Repository, error) {
	out, err := Repository(dir).git("rev-parse", "--show-toplevel")
	return Repository(out), err
}

func (r Repository) git(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", string(r)}, args...)...).Output()
	if err != nil {
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(failed.Stderr)))
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Commit that is checked out, and + where a file of the paths differs from it.
func (r Repository) Commit(paths ...string) (string, error) {
	commit, err := r.git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "", err
	}
	changed, err := r.git(append([]string{"status", "--porcelain", "--"}, paths...)...)
	if err != nil {
		return "", err
	}
	if changed != "" {
		commit += "+"
	}
	return commit, nil
}

// Since is how many commits after a commit changed any of the paths. The error may be that the repository does not have the commit.
func (r Repository) Since(commit string, paths ...string) (int, error) {
	out, err := r.git(slices.Concat([]string{"rev-list", "--count", commit + "..HEAD", "--"}, paths)...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

// same reports whether the paths have the same files at two commits; not where either is unknown, or has changes.
func (r Repository) same(a, b string, paths []string) bool {
	if strings.HasSuffix(a, "+") || strings.HasSuffix(b, "+") {
		return false
	}
	_, err := r.git(slices.Concat([]string{"diff", "--quiet", a, b, "--"}, paths)...)
	return err == nil
}
