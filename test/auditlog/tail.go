package auditlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Tail is a position in a log. It is not safe for concurrent use.
type Tail struct {
	path   string
	file   *os.File
	offset int64
}

// NewTail is at the beginning of the log at a path.
func NewTail(path string) *Tail { return &Tail{path: path} }

// Read calls f with each complete line that was not read before, in order,
// including its line feed. A line for which f fails is not read again. Where the
// API server has begun another file since, the one before is read to its end. It is
// an error if it has begun more than one, since lines may be missing.
func (t *Tail) Read(f func(line []byte) error) error {
	for {
		if t.file == nil {
			file, err := os.Open(t.path)
			if err != nil {
				return fmt.Errorf("cannot open the audit log: %w", err)
			}
			t.file, t.offset = file, 0
		}
		if err := t.read(f); err != nil {
			return err
		}
		rotated, err := t.rotated()
		if err != nil || !rotated {
			return err
		}
		if err := t.read(f); err != nil { // what came before the new file was begun
			return err
		}
		if err := t.file.Close(); err != nil {
			return fmt.Errorf("cannot close the audit log: %w", err)
		}
		t.file = nil
	}
}

// read the rest of the file.
func (t *Tail) read(f func(line []byte) error) error {
	if _, err := t.file.Seek(t.offset, io.SeekStart); err != nil {
		return fmt.Errorf("cannot seek in the audit log: %w", err)
	}
	for lines := bufio.NewReader(t.file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read the audit log: %w", err)
		}
		t.offset += int64(len(line))
		if err := f(line); err != nil {
			return err
		}
	}
}

// rotated reports whether the API server writes into another file by now. The one that is read is then the last of those before.
func (t *Tail) rotated() (bool, error) {
	mine, err := t.file.Stat()
	if err != nil {
		return false, fmt.Errorf("cannot find the audit log: %w", err)
	}
	current, err := os.Stat(t.path)
	if errors.Is(err, os.ErrNotExist) { // the next file comes
		return false, nil
	}
	if err != nil || os.SameFile(mine, current) {
		return false, err
	}
	before, err := filepath.Glob(strings.TrimSuffix(t.path, ".log") + "-*.log") // sorted, with their times as names
	if err != nil || len(before) == 0 {
		return false, errors.Join(err, fmt.Errorf("%s was replaced, and nothing has what was in it", t.path))
	}
	last, err := os.Stat(slices.Max(before))
	if err != nil {
		return false, fmt.Errorf("cannot find the audit log: %w", err)
	}
	if !os.SameFile(mine, last) {
		return false, fmt.Errorf("%s was replaced more than once since it was read: lines are missing", t.path)
	}
	return true, nil
}
