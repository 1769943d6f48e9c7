package admission

import (
	"runtime"
	"sync/atomic"
	"time"
)

// slowest is how many nanoseconds the slowest decision took.
var slowest atomic.Int64

// took notes how long a decision took.
func took(began time.Time) {
	d := int64(time.Since(began))
	for {
		if was := slowest.Load(); d <= was || slowest.CompareAndSwap(was, d) {
			return
		}
	}
}

// memory in MiB that the process has from the system.
func memory() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Sys >> 20
}
