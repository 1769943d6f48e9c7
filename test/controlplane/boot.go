package controlplane

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// bootPoll is how often a booting process is checked for being ready.
const bootPoll = 50 * time.Millisecond

// A program is one of the control plane's own, to be booted.
type program struct {
	name string

	// command makes the command with ports of its own. It is called again if one was taken.
	command func() (*exec.Cmd, error)

	// ready returns nil once the program does its work.
	ready func(context.Context) error

	// within is how long it may take to be ready, on an idle machine.
	within time.Duration
}

// boot starts p and waits until it is ready. If it dies because another process took one of its ports
// in between, it gets one more try with others.
func (c *ControlPlane) boot(ctx context.Context, p program) error {
	began := time.Now()

	again, err := c.tryBoot(ctx, p)
	if again {
		c.out.printf("%s did not get its ports, trying others\n", p.name)

		_, err = c.tryBoot(ctx, p)
	}

	if err != nil {
		return fmt.Errorf("cannot boot %s: %w", p.name, err)
	}

	c.out.printf("%s is ready after %s\n", p.name, time.Since(began).Round(100*time.Millisecond))

	return nil
}

// tryBoot starts p once. again reports that it died of a port that was taken.
func (c *ControlPlane) tryBoot(ctx context.Context, p program) (again bool, err error) {
	cmd, err := p.command()
	if err != nil {
		return false, err
	}

	cmd.Env = collectingLess(cmd.Environ())

	proc, err := c.adopt(ctx, p.name, cmd, true)
	if err != nil {
		return false, err
	}

	if err := proc.await(ctx, p.ready, p.within); err != nil {
		r := proc.current()
		again = !proc.running() && portTaken(proc.log, r.offset)
		proc.Kill()

		return again, err
	}

	proc.announceTo(c.out)
	proc.relyOn(func(r *run) { c.supervise(proc, r) }, 0)

	return false, nil
}

// await waits until ready returns nil, the process ends, ctx ends, or the time is over.
func (p *Process) await(ctx context.Context, ready func(context.Context) error, within time.Duration) error {
	within = Patience(within)

	timeout := time.NewTimer(within)
	defer timeout.Stop()

	tick := time.NewTicker(bootPoll)
	defer tick.Stop()

	for last := error(nil); ; {
		select {
		case <-p.Done():
			if err := p.Err(); err != nil {
				return err
			}

			return errStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout.C:
			return fmt.Errorf("%s is not ready after %s: %w\n%s", p.name, within, last, logTail(p.log, p.current().offset))
		case <-tick.C:
		}

		if last = ready(ctx); last == nil {
			return nil
		}
	}
}

// collectingLess returns the environment with a garbage collector that runs a third as often: it takes a tenth of the
// processor time of kube-apiserver. GOGC that is set already stays.
func collectingLess(environ []string) []string {
	if slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, "GOGC=") }) {
		return environ
	}

	return append(environ, "GOGC=300")
}
