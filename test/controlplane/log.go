package controlplane

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// How much of the end of a log is read (bytes), and how much an error shows.
const (
	logWindow   = 64 << 10
	logLines    = 12
	logLineSize = 400
)

func (c *ControlPlane) logPath(name string) string {
	return filepath.Join(c.dir.path, dirLogs, name+".log")
}

// logTail returns a line with the path of the log and the last lines of it after offset, indented.
func logTail(path string, offset int64) string {
	lines := strings.FieldsFunc(string(readTail(path, offset)), func(r rune) bool { return r == '\n' })
	if len(lines) == 0 {
		return fmt.Sprintf("its log %s is empty", path)
	}

	var b strings.Builder

	fmt.Fprintf(&b, "its log %s ends:", path)

	for _, l := range lines[max(0, len(lines)-logLines):] {
		if len(l) > logLineSize {
			l = l[:logLineSize] + "…"
		}

		b.WriteString("\n  " + l)
	}

	return b.String()
}

// portTaken reports whether the log after offset reports that a port was in use.
func portTaken(path string, offset int64) bool {
	return bytes.Contains(readTail(path, offset), []byte("address already in use"))
}

// readTail returns the end of a file, but nothing before offset. A file that cannot be read is empty.
func readTail(path string, offset int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // It was only read.

	info, err := f.Stat()
	if err != nil {
		return nil
	}

	if _, err := f.Seek(max(offset, info.Size()-logWindow), io.SeekStart); err != nil {
		return nil
	}

	data, _ := io.ReadAll(io.LimitReader(f, logWindow))

	return data
}

// A syncWriter lets several processes report to one writer.
type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *syncWriter) printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()

	_, _ = fmt.Fprintf(s.w, format, args...)
}
