package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tree of files that is tested.
type tree struct {
	// id is git's, of all files that are not ignored; empty where git cannot name it.
	id string
	// clean means that it is the tree of a commit.
	clean bool
}

// currentTree returns the tree in the current directory.
func currentTree(ctx context.Context) (tree, error) {
	status, err := git(ctx, nil, "status", "--porcelain", "--untracked-files=all")
	if err != nil {
		return tree{}, err
	}
	if status == "" {
		id, err := git(ctx, nil, "rev-parse", "HEAD^{tree}")
		return tree{id: id, clean: true}, err
	}
	dir, err := os.MkdirTemp("", "kausality-index-")
	if err != nil {
		return tree{}, fmt.Errorf("cannot read the work tree: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
	for _, args := range [][]string{{"read-tree", "HEAD"}, {"add", "--all"}} {
		if _, err := git(ctx, env, args...); err != nil {
			return tree{}, err
		}
	}
	id, err := git(ctx, env, "write-tree")
	return tree{id: id}, err
}

func git(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(os.Environ(), env...)
	raw, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(raw))
	if err != nil {
		return "", fmt.Errorf("cannot identify the tree: git %s: %w: %s", args[0], err, text)
	}
	return text, nil
}
