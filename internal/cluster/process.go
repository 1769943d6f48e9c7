package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrlruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// Process is what webhook, gate and policy controller have in common.
type Process struct {
	Config *rest.Config
	// MetricsAddress and ProbeAddress are HOST:PORT; "0" turns them off.
	MetricsAddress, ProbeAddress string
	// LeaderElection among several replicas, by a Lease in LeaderNamespace.
	LeaderElection  bool
	LeaderNamespace string
	// ClaimsKey seals claims, in webhook and gate; the zero value for none.
	ClaimsKey ClaimsKey
	// Repeated: this process makes several managers, one after the other or at once.
	Repeated bool
	Log      logr.Logger
}

// ShutdownGrace is for how long requests and writes in progress may go on in the end.
const ShutdownGrace = 10 * time.Second

// Manager of the process. lease is the name of the Lease that elects its leader, add
// adds to the scheme what the process reads and writes by the manager's clients.
func (p Process) Manager(lease string, cached cache.Options, add ...func(*runtime.Scheme) error) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, f := range add {
		if err := f(scheme); err != nil {
			return nil, err
		}
	}
	cached.DefaultWatchErrorHandler = informer.WatchFailed
	mgr, err := ctrlruntime.NewManager(p.Config, manager.Options{
		Scheme: scheme, Logger: p.Log, Cache: cached,
		Metrics: server.Options{BindAddress: p.MetricsAddress}, HealthProbeBindAddress: p.ProbeAddress,
		LeaderElection: p.LeaderElection, LeaderElectionID: lease, LeaderElectionNamespace: p.LeaderNamespace,
		LeaderElectionReleaseOnCancel: true, GracefulShutdownTimeout: new(ShutdownGrace), Controller: config.Controller{SkipNameValidation: &p.Repeated},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot start: %w", err)
	}
	return mgr, mgr.AddHealthzCheck("ping", healthz.Ping)
}

// Connect to the cluster. self is the user name of this process.
func (p Process) Connect(ctx context.Context) (c *Cluster, self string, err error) {
	if c, err = New(p.Config); err != nil {
		return nil, "", err
	}
	c.Log, c.ClaimsKey = p.Log.WithName("cluster"), p.ClaimsKey
	self, err = c.Self(ctx, p.Log)
	return c, self, err
}

// AddAll parts to a manager, which starts them in no order.
func AddAll(mgr manager.Manager, parts ...manager.Runnable) error {
	var failed error
	for _, r := range parts {
		failed = errors.Join(failed, mgr.Add(r))
	}
	if failed != nil {
		return fmt.Errorf("cannot start: %w", failed)
	}
	return nil
}

// Everywhere is a part of a process that runs on every replica.
type Everywhere func(context.Context) error

// Start calls it.
func (f Everywhere) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection is false.
func (Everywhere) NeedLeaderElection() bool { return false }

// GiveBack returns to the system, once the first lists are read, what they needed: it is
// several times what is kept of them.
func (c *Cluster) GiveBack(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) { return c.Ready() == nil, nil })
	if err == nil { // else the context ended
		debug.FreeOSMemory()
	}
	return nil
}
