package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// What is below the directory of a control plane.
const (
	dirEtcd        = "etcd"
	dirPKI         = "pki"
	dirLogs        = "logs"
	dirKubeconfigs = "kubeconfigs"
	dirCrossplane  = "crossplane"

	// workDirMarker marks that a directory is that of a control plane, and is locked while it runs.
	workDirMarker = ".controlplane"
)

// A workDir is the directory of one control plane, which no other process uses as long as it is open.
type workDir struct {
	path string
	temp bool
	lock *os.File

	// keepLogs lets the logs of a temporary directory stay: an error named them.
	keepLogs bool
}

// openWorkDir takes path (empty: a new temporary directory) for a control plane, and removes what
// an earlier one left in it.
func openWorkDir(path string) (*workDir, error) {
	d := &workDir{path: path, temp: path == ""}

	var err error
	if d.temp {
		d.path, err = os.MkdirTemp("", "controlplane-")
	} else if d.path, err = filepath.Abs(path); err == nil {
		err = os.MkdirAll(d.path, 0o700)
	}

	if err != nil {
		return nil, fmt.Errorf("cannot create the directory of the control plane: %w", err)
	}

	if err := d.take(); err != nil {
		return nil, fmt.Errorf("cannot use the directory %s: %w", d.path, err)
	}

	if err := d.remove(dirEtcd, dirPKI, dirLogs, dirKubeconfigs, dirCrossplane); err != nil {
		return nil, err
	}

	if err := os.Mkdir(filepath.Join(d.path, dirLogs), 0o700); err != nil {
		return nil, fmt.Errorf("cannot create the directory for logs: %w", err)
	}

	return d, nil
}

// take locks the directory, provided that it is ours or empty.
func (d *workDir) take() error {
	marker := filepath.Join(d.path, workDirMarker)

	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}

	if _, err := os.Stat(marker); err != nil && len(entries) > 0 {
		return errors.New("it holds files that are not those of a control plane; give an empty one")
	}

	if d.lock, err = os.OpenFile(marker, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}

	if err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = d.lock.Close()
		return errors.New("a control plane is running in it; stop it or give another directory")
	}

	return nil
}

// close unlocks the directory, and removes it if it is a temporary one.
func (d *workDir) close() error {
	_ = d.lock.Close()

	switch {
	case !d.temp:
		return nil
	case d.keepLogs:
		return d.remove(workDirMarker, dirEtcd, dirPKI, dirKubeconfigs, dirCrossplane)
	default:
		return d.remove(".")
	}
}

// remove removes what is below the directory.
func (d *workDir) remove(names ...string) error {
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(d.path, name)); err != nil {
			return fmt.Errorf("cannot remove the data of a control plane: %w", err)
		}
	}

	return nil
}

// writeFile writes a file below the directory and returns its path. Only the owner can read it.
func (c *ControlPlane) writeFile(data []byte, elem ...string) (string, error) {
	path := filepath.Join(append([]string{c.dir.path}, elem...)...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("cannot create %s: %w", filepath.Dir(path), err)
	}

	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("cannot write %s: %w", path, err)
	}

	return path, nil
}
