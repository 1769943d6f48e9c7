package controlplane_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// auditHas returns nil if one line of the audit log holds all the strings.
func auditHas(path string, all ...string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}

lines:
	for line := range strings.Lines(string(data)) {
		for _, s := range all {
			if !strings.Contains(line, s) {
				continue lines
			}
		}

		return nil
	}

	return fmt.Errorf("no line of %s holds %q", path, all)
}

// A safeBuffer can be written and read at once.
type safeBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.b.String()
}

// commandLinesWith returns the command lines of all processes that hold the text.
func commandLinesWith(t *testing.T, text string) []string {
	t.Helper()

	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}

	var lines []string

	for _, path := range all {
		if data, err := os.ReadFile(path); err == nil { // It may have ended.
			lines = append(lines, string(data))
		}
	}

	if len(all) == 0 { // Not Linux.
		data, err := exec.Command("ps", "-axo", "args").Output()
		if err != nil {
			t.Fatal(err)
		}

		lines = strings.Split(string(data), "\n")
	}

	return slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, text) })
}
