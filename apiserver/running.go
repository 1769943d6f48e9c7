package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/policies"
	"github.com/kausality-io/function-kausality/internal/decider"
)

const (
	// readyEvery is how often it is looked whether everything was read.
	readyEvery = 100 * time.Millisecond
	// restartAfter is how long after a failure it is tried again.
	restartAfter = time.Second
	// defaultMaxClusters bounds memory: one that is idle takes about as much as a webhook that knows no parents.
	defaultMaxClusters = 100
)

// Clusters are the logical clusters of a server that has several: each has objects, Namespaces and policies of its own, and a parent is looked up
// in the cluster of its child.
type Clusters struct {
	// Of returns the name of the cluster of the request that a context is of.
	Of func(context.Context) string
	// Config returns the configuration of clients of a cluster. It may change the loopback configuration that it is given.
	Config func(loopback *rest.Config, name string) *rest.Config
	// Max clusters at a time, which have guarded objects; 100 where 0. Guarded requests in others are answered as the mode requires where
	// nothing can be decided.
	Max int
}

// running is Kausality in one cluster.
type running struct {
	options decider.Options
	guard   *guard
	// namespaces are read live, while there is no decider.
	namespaces *policies.Namespaces
	// decider is nil until everything was read.
	decider atomic.Pointer[decider.Decider]
	// why there is no decider; nil while it starts.
	failed atomic.Pointer[error]
}

// of returns what runs in the cluster of a request; nil if nothing does, with the reason as the error.
func (k *Kausality) of(ctx context.Context) (*running, error) {
	name := ""
	if k.Clusters != nil {
		name = k.Clusters.Of(ctx)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.running[name]; r != nil {
		return r, nil
	}
	if k.start == nil {
		return nil, errNotRead
	}
	limit := cmp.Or(k.Clusters.Max, defaultMaxClusters)
	if len(k.running) >= limit {
		return nil, fmt.Errorf("cannot decide in cluster %s: there are %d clusters with guarded objects already", name, limit)
	}
	r, err := k.start(name)
	if err != nil {
		return nil, err
	}
	k.running[name] = r
	return r, nil
}

// ready returns the decider; nil if it cannot decide yet, with the reason as the error.
func (r *running) ready() (*decider.Decider, error) {
	if d := r.decider.Load(); d != nil {
		return d, nil
	}
	if err := r.failed.Load(); err != nil {
		return nil, fmt.Errorf("cannot decide: %w", *err)
	}
	return nil, errNotRead
}

// deciderOf returns the decider of the cluster of a request; nil if it cannot decide yet, with the reason as the error.
func (k *Kausality) deciderOf(ctx context.Context) (*decider.Decider, error) {
	r, err := k.of(ctx)
	if err != nil {
		return nil, err
	}
	return r.ready()
}

// labels of a Namespace, also before everything was read.
func (r *running) labels(ctx context.Context, namespace string) (map[string]string, error) {
	if d := r.decider.Load(); d != nil {
		return d.Cluster.Namespaces.LabelsNow(ctx, namespace)
	}
	return r.namespaces.LabelsNow(ctx, namespace)
}

var errNotRead = errors.New("cannot decide yet: the kinds and policies are not read; try again")

// newRunning returns what runs once keep is called.
func newRunning(o decider.Options, g *guard) (*running, error) {
	client, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	return &running{options: o, guard: g, namespaces: policies.NewNamespaces(client)}, nil
}

// keep running until the context ends: what ends before, as after a lost election, begins again, and nothing is decided meanwhile.
func (r *running) keep(ctx context.Context) {
	for {
		running, cancel := context.WithCancel(ctx)
		err := r.run(running)
		cancel()
		r.decider.Store(nil)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it ended")
		}
		r.failed.Store(&err)
		r.options.Log.Error(err, "cannot decide about requests; trying again")
		select {
		case <-ctx.Done():
			return
		case <-time.After(restartAfter):
		}
	}
}

// run the decider and its manager.
func (r *running) run(ctx context.Context) error {
	c, err := cluster.New(r.options.Config)
	if err != nil {
		return err
	}
	c.Log, c.ClaimsKey = r.options.Log.WithName("cluster"), r.options.ClaimsKey
	c.Scope.Fix(r.guard.object)
	if err := waitForPolicies(ctx, c, r.options.Log); err != nil {
		return err
	}
	mgr, err := decider.Manager(r.options, decider.Cached())
	if err != nil {
		return err
	}
	d, err := decider.Add(mgr, c, self, r.options)
	if err != nil {
		return err
	}
	go r.publish(ctx, d)
	return mgr.Start(ctx)
}

// publish the decider once everything was read.
func (r *running) publish(ctx context.Context, d *decider.Decider) {
	err := wait.PollUntilContextCancel(ctx, readyEvery, true, func(context.Context) (bool, error) { return d.Ready() == nil, nil })
	if err != nil { // the context ended
		return
	}
	r.decider.Store(d)
	r.failed.Store(nil)
	r.options.Log.Info("Kausality decides about requests", "mode", r.options.Admission.DefaultMode)
}

// waitForPolicies until the CRDs of kausality.io are served.
func waitForPolicies(ctx context.Context, c *cluster.Cluster, log logr.Logger) error {
	logged := false
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) {
		err := c.ServesPolicies()
		if err != nil && !logged {
			log.Info("Waiting for the CRDs of kausality.io; kausality manifests --crds-only has them", "reason", err.Error())
			logged = true
		}
		return err == nil, nil
	})
}
