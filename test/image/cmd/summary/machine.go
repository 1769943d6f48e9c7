package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// planeMemory is what a package with its control plane takes, in bytes.
const planeMemory = 2 << 30

// capacity is how many packages run at a time.
type capacity struct{ all, installations int }

// capacityOf a machine: packages wait most of their time, so that one more than there are processors
// run at a time, of which as many as there are processors are whole installations, at least one of each,
// and no more than fit into memory. Memory of 0 bytes is not known.
func capacityOf(processors int, memory uint64) capacity {
	all := processors + 1
	if memory > 0 {
		all = min(all, int(memory/planeMemory)) //nolint:gosec // A machine's memory.
	}
	all = max(all, 1)
	return capacity{all: all, installations: min(all, max(processors, 1))}
}

// thisMachine is the capacity of this one; atATime replaces how many packages run, if it is not 0.
func thisMachine(atATime int) capacity {
	c := capacityOf(runtime.GOMAXPROCS(0), availableMemory(os.ReadFile))
	if atATime > 0 {
		c.all = atATime
		c.installations = min(c.installations, atATime)
	}
	return c
}

// availableMemory in bytes; 0 where it is not known.
func availableMemory(read func(string) ([]byte, error)) uint64 {
	raw, err := read("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "MemAvailable:" {
			kib, err := strconv.ParseUint(fields[1], 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}

// sampling is how often the pressure is read.
const sampling = 5 * time.Second

// gauge remembers how busy the machine was.
type gauge struct {
	mu   sync.Mutex
	read []reading
}

type reading struct {
	at       time.Time
	pressure float64
}

// run reads the pressure until done is closed.
func (g *gauge) run(done <-chan struct{}) {
	tick := time.NewTicker(sampling)
	defer tick.Stop()
	for {
		if p, ok := pressure(os.ReadFile); ok {
			g.mu.Lock()
			g.read = append(g.read, reading{time.Now(), p})
			g.mu.Unlock()
		}
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

// at returns the pressure when a test ended; negative where it is not known.
func (g *gauge) at(r *result) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := -1.0
	for _, p := range g.read {
		if p.at.After(r.at) && was >= 0 {
			break
		}
		was = p.pressure
	}
	return was
}

// pressure is the share of the last ten seconds, in percent, in which some process waited for a processor.
func pressure(read func(string) ([]byte, error)) (float64, bool) {
	raw, err := read("/proc/pressure/cpu")
	if err != nil {
		return 0, false
	}
	_, rest, ok := strings.Cut(string(raw), "some avg10=")
	if !ok {
		return 0, false
	}
	value, _, _ := strings.Cut(rest, " ")
	p, err := strconv.ParseFloat(value, 64)
	return p, err == nil
}
