package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// treeFile in a kept directory has the id of the tree that was tested.
	treeFile = "tree"
	lockFile = ".lock"
)

// lockDir creates a directory and locks it until release is called or the process ends.
func lockDir(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot keep the outcomes: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot keep the outcomes: %w", err)
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		_ = f.Close()
		return nil, fmt.Errorf("cannot begin: another run has %s; wait for it to end, or interrupt it", dir)
	case err != nil:
		_ = f.Close()
		return nil, fmt.Errorf("cannot keep the outcomes: %w", err)
	}
	return func() { _ = f.Close() }, nil
}

// keptTree returns the id of the tree whose outcomes a directory has.
func keptTree(dir string) string {
	raw, err := os.ReadFile(filepath.Join(dir, treeFile))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// renew removes the outcomes of earlier runs from a directory.
func renew(dir, id string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot keep the outcomes: %w", err)
	}
	for _, e := range entries {
		if e.Name() == lockFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("cannot remove earlier outcomes: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, treeFile), []byte(id+"\n"), 0o600); err != nil {
		return fmt.Errorf("cannot keep the outcomes: %w", err)
	}
	return nil
}

// note of a phase that passed, so that a run can be resumed. Without a directory nothing is noted.
type note struct{ dir, phase string }

// noted is what the file of a note holds.
type noted struct {
	Took  time.Duration `json:"took"`
	Tally tally         `json:"tally"`
}

func (n note) file() string { return filepath.Join(n.dir, n.phase+".json") }

// read the phase if it passed. A file that cannot be read counts as absent: the phase runs again.
func (n note) read() (phase, bool) {
	if n.dir == "" {
		return phase{}, false
	}
	raw, err := os.ReadFile(n.file())
	if err != nil {
		return phase{}, false
	}
	var was noted
	if err := json.Unmarshal(raw, &was); err != nil {
		return phase{}, false
	}
	return phase{name: n.phase, result: passed, took: was.Took, tally: was.Tally}, true
}

// write the phase if it passed; an earlier note of one that did not is removed.
func (n note) write(p phase) error {
	if n.dir == "" {
		return nil
	}
	if p.result != passed {
		if err := os.Remove(n.file()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cannot remove the note of phase %s: %w", n.phase, err)
		}
		return nil
	}
	raw, err := json.Marshal(noted{Took: p.took, Tally: p.tally})
	if err != nil {
		return fmt.Errorf("cannot note phase %s: %w", n.phase, err)
	}
	if err := os.WriteFile(n.file(), append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("cannot note phase %s: %w", n.phase, err)
	}
	return nil
}
