package cluster

import (
	"context"
	"runtime/debug"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// GiveBack returns to the system, once the first lists are read, what they needed: it is
// several times what is kept of them.
func (c *Cluster) GiveBack(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) { return c.Ready() == nil, nil })
	if err == nil { // else the context ended
		debug.FreeOSMemory()
	}
	return nil
}
