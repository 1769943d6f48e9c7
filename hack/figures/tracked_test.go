package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxTracked is the size in bytes of the largest file in the repository: generated documents are the largest.
const maxTracked = 1 << 20

// TestTracked: no binary, or other output, is committed.
func TestTracked(t *testing.T) {
	const root = "../.."
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("this is no checkout of the repository")
	}
	list, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z").Output()
	require.NoError(t, err)
	names := strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
	require.NotEmpty(t, names)
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // it is deleted, and not committed yet
		}
		require.NoError(t, err)
		if info.Size() > maxTracked {
			t.Errorf("%s has %d bytes, more than %d: is it the output of a build?", name, info.Size(), maxTracked)
		}
	}
}
