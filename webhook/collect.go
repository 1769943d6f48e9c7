package webhook

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// litterFloor is the garbage that may lie around before it is collected, in
	// bytes. Each review leaves some 100 KB; with a small heap and Go's own measure
	// every hundredth of them or so would meet a collection, and wait for it.
	litterFloor = 24 << 20
	// heapLive is the runtime's name of the bytes that the last collection left.
	heapLive = "/gc/heap/live:bytes"
	// weighEvery is how often that is looked at, once the caches had fillFirst to
	// fill. Until then little garbage may lie around: lists are many times what is
	// kept of them, and the process keeps the memory that it once had.
	weighEvery  = 2 * time.Second
	fillFirst   = time.Minute
	fillPercent = 40
)

// collect paces the garbage collector until the context ends: thrift while the
// caches fill, then seldom.
// What GOGC says goes before.
func collect(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(fillPercent)
	sample := []metrics.Sample{{Name: heapLive}}
	wait := time.NewTimer(fillFirst)
	defer wait.Stop()
	for before := 0; ; wait.Reset(weighEvery) {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		metrics.Read(sample)
		if now := gcPercent(sample[0].Value.Uint64()); now != before {
			debug.SetGCPercent(now)
			before = now
		}
	}
}

// gcPercent of the live heap that may be garbage, so that it is no less than the
// floor, and never less than Go's own measure, 100.
func gcPercent(live uint64) int {
	const least, most = 100, 400
	return max(least, min(most, int(litterFloor*100/max(live, 1))))
}
