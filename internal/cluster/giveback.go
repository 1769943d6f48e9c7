package cluster

import (
	"context"
	"runtime/debug"
	"time"
)

// GiveBack returns to the system, once, what the first lists needed: it is
// several times what is kept of them. It is a part of a process that its manager
// starts.
type GiveBack struct{ Cluster *Cluster }

// Start waits for the lists.
func (g GiveBack) Start(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for g.Cluster.Ready() != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	debug.FreeOSMemory()
	return nil
}

// NeedLeaderElection is false.
func (GiveBack) NeedLeaderElection() bool { return false }
