package controlplane

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A run is one life of a process, from its start to its end.
type run struct {
	cmd       *exec.Cmd
	offset    int64         // where in the log its output begins, bytes
	done      chan struct{} // closed when it has ended and err is set
	err       error
	announced sync.Once // it was announced that it ended on its own

	finished sync.Once // ended has been called with it

	mu        sync.Mutex
	requested bool // its end was requested here
	reaped    bool // its id may belong to another process
}

// startRun starts a copy of template that writes to the end of the log.
func startRun(template *exec.Cmd, log string) (*run, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // The child has its own.

	offset, err := f.Seek(0, 2)
	if err != nil {
		return nil, err
	}

	cmd := &exec.Cmd{
		Path: template.Path, Args: template.Args, Env: template.Env, Dir: template.Dir, Err: template.Err,
		Stdout: f, Stderr: f, SysProcAttr: procAttr(),
	}

	started := make(chan error)

	spawner() <- func() { started <- cmd.Start() }

	if err := <-started; err != nil {
		return nil, err
	}

	r := &run{cmd: cmd, offset: offset, done: make(chan struct{})}

	go r.wait()

	return r, nil
}

// spawner runs functions on one thread that lives as long as this process. Linux sends a child its
// parent-death signal when the thread that made it ends, not the process.
var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())

	go func() {
		runtime.LockOSThread()

		for f := range work {
			f()
		}
	}()

	return work
})

// wait waits for the end of the process and kills what is left of its group.
func (r *run) wait() {
	r.err = reap(r.cmd, func() {
		r.mu.Lock()
		defer r.mu.Unlock()

		_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
		r.reaped = true
	})

	close(r.done)
}

// signal sends a signal to the group, unless the process has ended.
func (r *run) signal(s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if !r.reaped {
		_ = syscall.Kill(-r.cmd.Process.Pid, s)
	}
}

// request notes that the process is to end, and reports whether this is the first time.
func (r *run) request() bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	first := !r.requested
	r.requested = r.requested || !r.reaped

	return first
}

// stop ends the process and waits. A grace of 0 kills it at once. SIGTERM is sent once only: many
// programs take a second one for impatience and drop what they are doing.
func (r *run) stop(grace time.Duration) {
	if first := r.request(); grace > 0 {
		if first {
			r.signal(syscall.SIGTERM)
		}

		select {
		case <-r.done:
			return
		case <-time.After(grace):
		}
	}

	r.signal(syscall.SIGKILL)
	<-r.done
}

func (r *run) wasRequested() bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.requested
}
