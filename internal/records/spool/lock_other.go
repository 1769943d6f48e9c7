//go:build !unix

package spool

import (
	"os"
	"path/filepath"
)

// lockDir is only a file here: our processes run on Linux, and the plugin for other systems has no spool.
func lockDir(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
}
