package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// Options declare what Start boots. The zero value is a control plane without Crossplane, in a
// temporary directory, that reports nothing.
type Options struct {
	// Dir holds everything the control plane writes. It must be empty, absent, or that of an
	// earlier control plane, whose data is then removed. Empty means a temporary directory that
	// Stop removes.
	Dir string

	// BinDir holds the programs. Empty means parts.DefaultBinDir.
	BinDir string

	// Out receives what is built and booted, a line each, and if a process ends on its own. Nil
	// means that nothing is reported.
	Out io.Writer

	// Crossplane also starts Crossplane's core.
	Crossplane bool

	// CrossplaneArgs are added to those of crossplane core start. The last of a repeated flag
	// counts.
	CrossplaneArgs []string

	// Kro also starts the controller of kro.
	Kro bool

	// APIServer is the part that is the API server, one with the flags of kube-apiserver.
	// parts.KubeAPIServer where empty.
	APIServer string

	// AdmissionPlugins are the configurations of admission plugins, by the plugin's name.
	AdmissionPlugins map[string]any

	// ServiceRange is the CIDR that Services get their addresses from; 10.0.0.0/24 where empty.
	// The API server calls a webhook with a Service at that address, where nothing routes to it:
	// with a range of loopback addresses (127.64.0.0/24), which are all this machine's on Linux, a
	// test can listen there.
	ServiceRange string

	// AuditLog lets the API server write every request, with annotations, to AuditLog().
	AuditLog bool

	// AuditGroups are API groups whose requests it holds with their objects (level
	// RequestResponse); of all others it holds only who did what.
	AuditGroups []string
	// AuditWrites are resources whose writes it holds with their objects, such as secrets, databases.example.org and *.example.org.
	AuditWrites []string
}

// A ControlPlane owns the processes of a control plane and those started with Run. Its methods are
// safe for concurrent use.
type ControlPlane struct {
	opts    Options
	dir     *workDir
	out     *syncWriter
	paths   parts.Paths
	started time.Time

	// cluster signs the API server's certificate and those of users, ca everything else.
	cluster, ca *CA

	admin   *rest.Config
	applier *Applier

	tokens  map[string]string // by user
	etcdURL string
	grace   time.Duration

	crossplaneMetrics string

	mu     sync.Mutex
	procs  []*Process
	closed bool

	stopOnce sync.Once
	cancel   context.CancelFunc
}

// Start boots a control plane. It lives until Stop is called or ctx ends, whichever is first. If
// Start returns an error, nothing is left running; the logs stay unless it was ctx that ended.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if o.Out == nil {
		o.Out = io.Discard
	}

	if o.ServiceRange == "" {
		o.ServiceRange = "10.0.0.0/24"
	}

	if o.APIServer == "" {
		o.APIServer = parts.KubeAPIServer
	}

	c := &ControlPlane{opts: o, out: &syncWriter{w: o.Out}, started: time.Now(), grace: stopGrace}

	names := []string{parts.Etcd, o.APIServer, parts.KubeControllerManager}
	if o.Crossplane {
		names = append(names, parts.Crossplane)
	}

	if o.Kro {
		names = append(names, parts.Kro)
	}

	var err error
	if c.paths, err = parts.Ensure(ctx, o.Out, o.BinDir, names...); err != nil {
		return nil, err
	}

	if c.dir, err = openWorkDir(o.Dir); err != nil {
		return nil, err
	}

	ctx, c.cancel = context.WithCancel(ctx)
	context.AfterFunc(ctx, c.Stop)

	if err := c.bootAll(ctx); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("cannot boot the control plane: %w", context.Cause(ctx))
		} else {
			c.dir.keepLogs = true
		}

		c.Stop()

		return nil, err
	}

	return c, nil
}

// bootAll boots the processes in the order in which they need each other.
func (c *ControlPlane) bootAll(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		c.writeKeys, c.bootEtcd, c.bootAPIServer, c.bootControllerManager,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}

	if c.opts.Crossplane {
		if err := c.bootCrossplane(ctx); err != nil {
			return err
		}
	}

	if !c.opts.Kro {
		return nil
	}

	return c.bootKro(ctx)
}

// Stop ends every process that was started here and waits until they are gone: first those of Run,
// which get SIGTERM and five seconds, then the control plane itself, which has nothing to save and is
// killed. It removes the directory if it is a temporary one. Calls after the first wait for it.
func (c *ControlPlane) Stop() {
	c.stopOnce.Do(func() {
		defer c.cancel()
		defer outages.forget(c)

		c.mu.Lock()
		c.closed = true
		procs := c.procs
		c.mu.Unlock()

		var own, theirs []*Process

		for _, p := range procs {
			if p.core {
				own = append(own, p)
			} else {
				theirs = append(theirs, p)
			}
		}

		each(theirs, func(p *Process) { p.close(p.grace) })
		each(own, func(p *Process) { p.close(0) })

		if err := c.dir.close(); err != nil {
			c.out.printf("%v\n", err)
		}
	})
}

// stopping reports whether Stop was called.
func (c *ControlPlane) stopping() bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.closed
}

// each calls f for all processes at once and waits.
func each(ps []*Process, f func(*Process)) {
	var wg sync.WaitGroup
	for _, p := range ps {
		wg.Go(func() { f(p) })
	}

	wg.Wait()
}

// Dir returns the directory that everything is below.
func (c *ControlPlane) Dir() string { return c.dir.path }

// AuditLog returns the path of the API server's audit log: a JSON object per line. Each 100 MiB it begins another file, and keeps the five before.
func (c *ControlPlane) AuditLog() string { return filepath.Join(c.dir.path, dirLogs, "audit.log") }

// CrossplaneMetrics returns the URL of the metrics of Crossplane's core, empty where there is none.
func (c *ControlPlane) CrossplaneMetrics() string { return c.crossplaneMetrics }

// CA returns the authority for everything but the API server: function mTLS and webhook serving.
func (c *ControlPlane) CA() *CA { return c.ca }

// Process returns the running or ended process of that name, nil if there never was one. The names
// of the control plane's own are those of their parts.
func (c *ControlPlane) Process(name string) *Process {
	c.mu.Lock()
	defer c.mu.Unlock()

	for _, p := range c.procs {
		if p.name == name {
			return p
		}
	}

	return nil
}

// Err returns what the control plane's own processes ended with on their own, nil if all are
// running.
func (c *ControlPlane) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()

	var errs []error

	for _, p := range c.procs {
		if p.core {
			errs = append(errs, p.Err())
		}
	}

	return errors.Join(errs...)
}
