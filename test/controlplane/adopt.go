package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// Run starts cmd, which must not have been started, as a process called name. Its output goes to the
// end of DIR/logs/NAME.log, whatever the output of cmd is. It ends when ctx ends, or with the control plane. If
// it ends on its own it is not started again; Done and Err report it. A name can be used again once its
// process has ended.
func (c *ControlPlane) Run(ctx context.Context, name string, cmd *exec.Cmd) (*Process, error) {
	p, err := c.adopt(ctx, name, cmd, false)
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}

	p.announceTo(c.out)
	context.AfterFunc(ctx, func() { p.close(p.grace) })

	return p, nil
}

// Serve is Run for a process that tests rely on. If it ends on its own, whatever waits with Eventually
// fails at once with the name of the process, its exit status and the end of its log, and the process
// is started again, three times in all. After that everything that waits fails for this reason.
func (c *ControlPlane) Serve(ctx context.Context, name string, cmd *exec.Cmd) (*Process, error) {
	p, err := c.Run(ctx, name, cmd)
	if err != nil {
		return nil, err
	}

	p.relyOn(func(r *run) { c.supervise(p, r) }, restarts)

	return p, nil
}

// adopt starts cmd as a process that Stop will end. core declares it one of the control plane's
// own.
func (c *ControlPlane) adopt(ctx context.Context, name string, cmd *exec.Cmd, core bool) (*Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.closed {
		return nil, errStopped
	}

	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}

	kept := make([]*Process, 0, len(c.procs)+1)

	for _, old := range c.procs {
		switch {
		case old.name != name:
			kept = append(kept, old)
		case old.running():
			return nil, errors.New("a process of that name is running")
		default:
			old.forget()
		}
	}

	p := &Process{name: name, log: c.logPath(name), template: cmd, grace: c.grace, core: core}
	if err := p.start(); err != nil {
		return nil, err
	}

	kept = append(kept, p)
	c.procs = kept

	return p, nil
}
