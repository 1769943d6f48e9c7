package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
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

	// Who stops it reads the process that has the lock.
	if err := d.lock.Truncate(0); err != nil {
		return err
	}

	_, err = d.lock.WriteString(strconv.Itoa(os.Getpid()))

	return err
}

// ErrNotRunning is that no control plane runs in a directory.
var ErrNotRunning = errors.New("no control plane runs in it")

// End stops the control plane that runs in dir, of whatever process, with all that runs on it, and returns once it has stopped.
// ErrNotRunning if none does.
func End(ctx context.Context, dir string) error {
	lock, err := os.Open(filepath.Join(dir, workDirMarker))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotRunning
	}

	if err != nil {
		return fmt.Errorf("cannot find out what runs: %w", err)
	}
	defer lock.Close() //nolint:errcheck // Nothing was written.

	if syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return ErrNotRunning
	}

	raw, err := io.ReadAll(lock)
	if err != nil {
		return fmt.Errorf("cannot read which process runs it: %w", err)
	}

	pid, err := strconv.Atoi(string(raw))
	if err != nil || pid <= 1 {
		return fmt.Errorf("%s holds %q, not the number of a process", lock.Name(), raw)
	}

	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("cannot stop process %d: %w", pid, err)
	}

	return Eventually(ctx, fmt.Sprintf("process %d to stop", pid), time.Minute, func(context.Context) error {
		return syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	})
}

// logsVariable is the environment variable with the directory to which logs are copied where tests have failed.
const logsVariable = "KAUSALITY_LOGS"

// copyLogs where tests have failed, for those who want to know why.
func (d *workDir) copyLogs() error {
	to := os.Getenv(logsVariable)
	if to == "" || !d.temp || !failed.Load() {
		return nil
	}

	name := filepath.Base(os.Args[0]) + "-" + filepath.Base(d.path)
	if err := os.CopyFS(filepath.Join(to, name), os.DirFS(filepath.Join(d.path, dirLogs))); err != nil {
		return fmt.Errorf("cannot keep the logs of a control plane: %w", err)
	}

	return nil
}

// close unlocks the directory, and removes it if it is a temporary one.
func (d *workDir) close() error {
	_ = d.lock.Close()

	err := d.copyLogs()

	switch {
	case !d.temp:
		return nil
	case d.keepLogs:
		return errors.Join(err, d.remove(workDirMarker, dirEtcd, dirPKI, dirKubeconfigs, dirCrossplane))
	default:
		return errors.Join(err, d.remove("."))
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
