package controlplane

import (
	"fmt"
	"sync"
	"time"
)

const (
	// restarts is how often a served process that ends on its own is started again.
	restarts = 3

	// restartPause is how long it stays down in between.
	restartPause = time.Second
)

// An outage is the end of a process that tests rely on.
type outage struct {
	plane *ControlPlane
	err   error
	at    time.Time

	// lasting: the process is not started again.
	lasting bool

	// reported: a test has failed because of it.
	reported bool
}

// An outageLog holds the outages of the control planes that are running. Eventually reads it, which
// knows no control plane: a test that waits for a process that has ended is to fail at once, and with
// the process's name.
type outageLog struct {
	mu  sync.Mutex
	all []*outage
}

var outages outageLog

// add an outage, unless its control plane is being stopped.
func (l *outageLog) add(o *outage) {
	if o.plane.stopping() {
		return
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	l.all = append(l.all, o)
}

// forget the outages of a control plane that is stopped.
func (l *outageLog) forget(c *ControlPlane) {
	l.mu.Lock()
	defer l.mu.Unlock()

	kept := l.all[:0]

	for _, o := range l.all {
		if o.plane != c {
			kept = append(kept, o)
		}
	}

	l.all = kept
}

// since returns an outage that concerns who has been waiting since then: one that lasts, one from in
// between, or one that no test has failed for yet. Nil means there is none.
func (l *outageLog) since(began time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, o := range l.all {
		if !o.lasting && o.reported && o.at.Before(began) {
			continue
		}

		o.reported = true

		if o.lasting {
			return fmt.Errorf("a process of the control plane is gone: %w", o.err)
		}

		return fmt.Errorf("a process of the control plane ended and was started again: %w", o.err)
	}

	return nil
}

// supervise what a run of a process of the plane ended with: the end is an outage unless it was requested
// for. A served process is started again, restarts times in all.
func (c *ControlPlane) supervise(p *Process, r *run) {
	err := p.failure(r)
	if err == nil {
		return
	}

	again := !p.core && p.spend()

	outages.add(&outage{plane: c, err: err, at: time.Now(), lasting: !again})

	if !again {
		return
	}

	time.Sleep(restartPause)

	if err := p.resume(r); err != nil {
		outages.add(&outage{plane: c, err: err, at: time.Now(), lasting: true})
	}
}

// spend takes one of the restarts that are left.
func (p *Process) spend() bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.closed || p.restarts == 0 {
		return false
	}

	p.restarts--

	return true
}

// resume starts the process again, unless another run has taken the place of r, or it may not run.
func (p *Process) resume(r *run) error {
	p.restart.Lock()
	defer p.restart.Unlock()

	p.mu.Lock()
	over := p.closed || p.run != r
	p.mu.Unlock()

	if over {
		return nil
	}

	if err := p.start(); err != nil {
		return fmt.Errorf("cannot restart %s: %w", p.name, err)
	}

	return nil
}
