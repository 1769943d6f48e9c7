package controlplane_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
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
