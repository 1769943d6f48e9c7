package auditlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// A Tail is a position in a log. It is not safe for concurrent use.
type Tail struct {
	path   string
	offset int64
}

// NewTail is at the beginning of the log at a path.
func NewTail(path string) *Tail { return &Tail{path: path} }

// Read calls f with each complete line that was not read before, in order,
// including its line feed. A line for which f fails is not read again.
func (t *Tail) Read(f func(line []byte) error) error {
	file, err := os.Open(t.path)
	if err != nil {
		return fmt.Errorf("cannot open the audit log: %w", err)
	}
	defer file.Close() //nolint:errcheck // The file was only read.
	if _, err := file.Seek(t.offset, io.SeekStart); err != nil {
		return fmt.Errorf("cannot seek in the audit log: %w", err)
	}
	for lines := bufio.NewReader(file); ; {
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
