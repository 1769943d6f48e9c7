package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// note of a phase that passed, so that a run that was interrupted goes on where
// it was. Without a directory nothing is noted.
type note struct{ dir, phase, version string }

// noted is what the file of a note holds.
type noted struct {
	Version string        `json:"version"`
	Took    time.Duration `json:"took"`
	Tally   tally         `json:"tally"`
}

func (n note) file() string { return filepath.Join(n.dir, n.phase+".json") }

// read the phase if it passed for the same version. A file that cannot be read
// is none: the phase runs again.
func (n note) read() (phase, bool) {
	if n.dir == "" {
		return phase{}, false
	}
	raw, err := os.ReadFile(n.file())
	if err != nil {
		return phase{}, false
	}
	var was noted
	if err := json.Unmarshal(raw, &was); err != nil || was.Version != n.version {
		return phase{}, false
	}
	return phase{name: n.phase, result: passed, took: was.Took, tally: was.Tally}, true
}

// write the phase down if it passed; an earlier note of one that did not is
// removed.
func (n note) write(p phase) error {
	if n.dir == "" {
		return nil
	}
	if p.result != passed {
		if err := os.Remove(n.file()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cannot forget phase %s: %w", n.phase, err)
		}
		return nil
	}
	raw, err := json.Marshal(noted{Version: n.version, Took: p.took, Tally: p.tally})
	if err != nil {
		return fmt.Errorf("cannot note phase %s: %w", n.phase, err)
	}
	if err := errors.Join(os.MkdirAll(n.dir, 0o755), os.WriteFile(n.file(), append(raw, '\n'), 0o600)); err != nil {
		return fmt.Errorf("cannot note phase %s: %w", n.phase, err)
	}
	return nil
}
