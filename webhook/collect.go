package webhook

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// litterFloor is the garbage that may lie around before it is collected, in
	// bytes. Each review leaves some 50 KB; with a small heap and Go's own measure
	// one of two hundred or so would meet a collection, and wait for it.
	litterFloor = 24 << 20
	// goPercent is what Go does by itself.
	goPercent = 100
	// heapLive is the runtime's name of the bytes that the last collection left.
	heapLive = "/gc/heap/live:bytes"
	// weighEvery is how often that is looked at, once the caches had fillFirst to
	// fill. Until then little garbage may lie around: lists are many times what is
	// kept of them, and the process keeps the memory that it once had.
	weighEvery  = 2 * time.Second
	fillFirst   = 20 * time.Second
	fillPercent = 40
	// burstLimit is the memory, in bytes, from which on garbage is collected at once
	// while the heap was small when it was last looked at: a kind that comes under
	// guard may be a long list.
	burstLimit = 192 << 20
)

// collect paces the garbage collector until the context ends: thrift while the
// caches fill, then seldom. What GOGC and GOMEMLIMIT say goes before.
func collect(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
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
			debug.SetMemoryLimit(memoryLimit(now))
			before = now
		}
	}
}

// memoryLimit beside a percentage: none where it is Go's own.
func memoryLimit(percent int) int64 {
	if percent > goPercent {
		return burstLimit
	}
	return math.MaxInt64
}

// gcPercent of the live heap that may be garbage, so that it is no less than the
// floor, and never less than Go's own measure.
func gcPercent(live uint64) int {
	const most = 400
	return max(goPercent, min(most, int(litterFloor*100/max(live, 1))))
}
