package controlplane

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// procAttr gives a child a process group of its own and lets it die with us, even if we are killed.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// reap waits until cmd has ended, calls ended while its id still belongs to it, and only then lets
// the system have the id back.
func reap(cmd *exec.Cmd, ended func()) error {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}

	ended()

	return cmd.Wait()
}
