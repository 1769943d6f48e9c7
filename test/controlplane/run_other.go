//go:build unix && !linux

package controlplane

import (
	"os/exec"
	"syscall"
)

// procAttr gives a child a process group of its own. Only Linux can let it die with us.
func procAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits until cmd has ended and then calls ended.
func reap(cmd *exec.Cmd, ended func()) error {
	err := cmd.Wait()

	ended()

	return err
}
