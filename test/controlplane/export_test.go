package controlplane

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Gone returns an error as long as there is a process of that id. One that has ended, but that the
// system's first process has not taken note of yet, is gone.
func Gone(pid int) error {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return nil
	}

	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(stat), ") Z ") {
		return nil
	}

	return fmt.Errorf("process %d is still there", pid)
}
