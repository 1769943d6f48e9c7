package controlplane

import (
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a process may take to end after SIGTERM before it is killed.
const stopGrace = 5 * time.Second

// errStopped is why a process is not started once the control plane or its context has ended.
var errStopped = errors.New("the control plane was stopped")

// A Process is a program that the control plane runs for a caller. It can be stopped and started
// again. Its methods are safe for concurrent use.
type Process struct {
	name, log string
	template  *exec.Cmd
	grace     time.Duration
	core      bool

	// restart is held while the process is stopped and started again, mu while the rest is used.
	restart  sync.Mutex
	mu       sync.Mutex
	run      *run
	closed   bool
	announce func(error) // called if the process ends on its own; may be nil

	// ended is called with each run that has ended, once the process is one that tests rely on; may be
	// nil. restarts are left to a process that ends on its own.
	ended    func(*run)
	restarts int
}

// start starts the program, if it may and is not running.
func (p *Process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.closed {
		return errStopped
	}

	r, err := startRun(p.template, p.log)
	if err != nil {
		return err
	}

	p.run = r

	go func() {
		<-r.done
		p.report(r)
		p.finish(r)
	}()

	return nil
}

// announceTo reports to out if the process ends on its own, also if it has already.
func (p *Process) announceTo(out *syncWriter) {
	p.mu.Lock()
	p.announce = func(err error) { out.printf("%v\n", err) }
	r := p.run
	p.mu.Unlock()

	select {
	case <-r.done:
		p.report(r)
	default:
	}
}

// relyOn has the end of each run supervised from now on, also if the current one has ended already.
func (p *Process) relyOn(supervise func(*run), restarts int) {
	p.mu.Lock()
	p.ended, p.restarts = supervise, restarts
	r := p.run
	p.mu.Unlock()

	select {
	case <-r.done:
		go p.finish(r)
	default:
	}
}

// finish calls ended, once for each run.
func (p *Process) finish(r *run) {
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()

	if ended != nil {
		r.finished.Do(func() { ended(r) })
	}
}

// report announces, once, that r ended on its own.
func (p *Process) report(r *run) {
	p.mu.Lock()
	announce := p.announce
	p.mu.Unlock()

	if err := p.failure(r); err != nil && announce != nil {
		r.announced.Do(func() { announce(err) })
	}
}

// Name returns the name given to Run.
func (p *Process) Name() string { return p.name }

// Log returns the path of the file with what the process prints.
func (p *Process) Log() string { return p.log }

// Pid returns the id of the process, and of its process group, whether it is running or has ended.
func (p *Process) Pid() int { return p.current().cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended, whatever ended it. After Restart
// there is another one.
func (p *Process) Done() <-chan struct{} { return p.current().done }

// Err returns nil while the process is running and after it was stopped or killed by this package.
// If it ended on its own, be it with exit status 0, Err reports how and shows the end of its log.
func (p *Process) Err() error { return p.failure(p.current()) }

// Stop requests the process to end (SIGTERM), kills its group after five seconds, and waits.
func (p *Process) Stop() { p.current().stop(p.grace) }

// Kill kills the process group at once (SIGKILL) and waits.
func (p *Process) Kill() { p.current().stop(0) }

// Restart stops the process, if it is running, and starts it again with the same arguments.
func (p *Process) Restart() error {
	p.restart.Lock()
	defer p.restart.Unlock()

	p.Stop()

	if err := p.start(); err != nil {
		return fmt.Errorf("cannot restart %s: %w", p.name, err)
	}

	return nil
}

// Signal sends a signal to the process group, if it is running: SIGSTOP makes it hang, SIGCONT go on.
func (p *Process) Signal(s syscall.Signal) { p.current().signal(s) }

// close stops the process for good.
func (p *Process) close(grace time.Duration) {
	p.forget()
	p.current().stop(grace)
}

// forget makes sure that the process is not started again.
func (p *Process) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.closed = true
}

func (p *Process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.run
}

func (p *Process) running() bool {
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

// failure returns how r ended, if its end was not requested.
func (p *Process) failure(r *run) error {
	select {
	case <-r.done:
	default:
		return nil
	}

	if r.wasRequested() {
		return nil
	}

	how := "exit status 0"
	if r.err != nil {
		how = r.err.Error()
	}

	return fmt.Errorf("%s ended: %s\n%s", p.name, how, logTail(p.log, r.offset))
}
