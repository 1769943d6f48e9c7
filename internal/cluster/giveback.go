package cluster

import (
	"context"
	"runtime/debug"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// GiveBack returns to the system, once, what the first lists needed: it is
// several times what is kept of them. It is a part of a process that its manager
// starts.
type GiveBack struct{ Cluster *Cluster }

// Start waits for the lists.
func (g GiveBack) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) { return g.Cluster.Ready() == nil, nil })
	if err == nil { // else the context ended
		debug.FreeOSMemory()
	}
	return nil
}

// NeedLeaderElection is false.
func (GiveBack) NeedLeaderElection() bool { return false }
