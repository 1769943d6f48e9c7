package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/kausality-io/function-kausality/test/controlplane"
)

const (
	soakReplicas = 2
	soakWorkers  = 4
	// sampleEvery is how often the replicas' figures are taken.
	sampleEvery = 10 * time.Second
	// youth is how long a replica under load fills its caches, and takes over what
	// another one had; what grows later is a leak.
	youth = time.Minute
	// growth that is tolerated from the first to the last third of a stretch after
	// that: of goroutines, and of the live heap.
	growth = 1.2
)

// soak puts mixed load on two replicas that are restarted in turn, and looks for
// calls that failed and for goroutines and memory that grow.
func soak(ctx context.Context, o options) error {
	b, err := start(ctx)
	if err != nil {
		return err
	}
	defer b.Stop()
	const group = "soak.bench.example.org"
	if err := b.Define(ctx, controlplane.Kind{Group: group, Kind: "App"}, controlplane.Kind{Group: group, Kind: "Part"}); err != nil {
		return err
	}
	replicas, err := b.replicas(ctx)
	if err != nil {
		return err
	}
	if err := b.ready(ctx, replicas); err != nil {
		return err
	}
	l, err := newLoad(b, "soak.bench.example.org")
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range soakWorkers {
		wg.Go(func() { l.work(ctx, i) })
	}
	if err := l.fill(ctx); err != nil {
		return err
	}
	fmt.Printf("\n%s of load by %d workers on %d replicas, one of them restarted every %s:\n", o.duration, soakWorkers, soakReplicas, o.every)
	timed, stop := context.WithTimeout(ctx, o.duration)
	defer stop()
	stretches, err := b.roll(timed, replicas, l, o.every)
	cancel()
	wg.Wait()
	if err != nil {
		return err
	}
	return verdict(l, stretches)
}

// fill the cluster with all records that are kept of earlier changes.
func (l *load) fill(ctx context.Context) error {
	fmt.Printf("\nload until no more is kept of approvals and Drifts than before: %d rounds\n", fullRounds)
	ctx, cancel := context.WithTimeoutCause(ctx, fullWithin, fmt.Errorf("no %d rounds within %s", fullRounds, fullWithin))
	defer cancel()
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-l.full:
			return l.err()
		case <-tick.C:
			fmt.Printf("%8s  %s\n", time.Since(l.started).Round(time.Second), l)
			if err := l.err(); err != nil {
				return err
			}
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), l.err())
		}
	}
}

// replicas behind a balancer, and the API server configured to call it.
func (b *bench) replicas(ctx context.Context) ([]*kausality, error) {
	out := make([]*kausality, soakReplicas)
	for i := range out {
		var err error
		if out[i], err = b.addresses(); err != nil {
			return nil, err
		}
	}
	front, err := balance(ctx, out)
	if err != nil {
		return nil, err
	}
	if err := b.configure(ctx, front.Addr().String(), []string{"*.soak.bench.example.org"}); err != nil {
		return nil, err
	}
	for i, k := range out {
		if err := b.run(ctx, fmt.Sprintf("kausality-%d", i), k, "--leader-elect", "--settle-grace=1s", "--shutdown-delay=2s"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ready waits for all replicas, and until the balancer knows of them.
func (b *bench) ready(ctx context.Context, replicas []*kausality) error {
	for _, k := range replicas {
		if err := k.awaitReady(ctx); err != nil {
			return err
		}
	}
	return pause(ctx, 2*probeEvery)
}

// stretch of a replica's life between two restarts, its own or another's: the
// replica that stays gets the leadership and the connections of the other one.
type stretch struct {
	replica int
	samples []figures
}

// loaded are the samples in which the replica had work, but for its youth. The
// API server keeps to few connections, so that one replica may have nearly all of
// it; what an idle one needs is not evidence.
func (s stretch) loaded() (out []figures) {
	for i := 1; i < len(s.samples); i++ {
		if s.samples[i].decisions-s.samples[i-1].decisions >= sampleEvery.Seconds() {
			out = append(out, s.samples[i])
		}
	}
	return out[min(len(out), int(youth/sampleEvery)):]
}

// roll restarts the replicas in turn until the context ends, and takes their
// figures meanwhile.
func (b *bench) roll(ctx context.Context, replicas []*kausality, l *load, every time.Duration) (all []stretch, err error) {
	current := make([]stretch, len(replicas))
	restart := time.Now().Add(every)
	for turn := 0; pause(ctx, sampleEvery) == nil; {
		for i, k := range replicas {
			f, err := k.figures(ctx)
			if ctx.Err() != nil {
				break
			}
			if err != nil {
				return nil, err
			}
			current[i].replica, current[i].samples = i, append(current[i].samples, f)
		}
		if time.Now().Before(restart) {
			continue
		}
		i := turn % len(replicas)
		if err := replicas[i].Restart(); err != nil {
			return nil, err
		}
		if err := replicas[i].awaitReady(ctx); err != nil && ctx.Err() == nil {
			return nil, err
		}
		all, current = append(all, current...), make([]stretch, len(replicas))
		turn, restart = turn+1, time.Now().Add(every)
		fmt.Printf("%8s  %s\n", time.Since(l.started).Round(time.Second), l)
	}
	return append(all, current...), nil
}

// verdict prints the figures, and returns an error where they miss their limits.
func verdict(l *load, stretches []stretch) error {
	fmt.Printf("\n%s\n\n%-10s %10s %10s %14s %14s\n", l, "replica", "stretch", "under load", "goroutines", "live heap")
	worst := 0.0
	for _, s := range stretches {
		old := s.loaded()
		if len(old) < 6 {
			continue // too short for a comparison
		}
		third := len(old) / 3
		first, last := mean(old[:third]), mean(old[len(old)-third:])
		g, h := last.goroutines/first.goroutines, last.live/first.live
		worst = math.Max(worst, math.Max(g, h))
		fmt.Printf("%-10d %10s %10s %6.0f (%.2f) %6.1f (%.2f) MiB\n", s.replica, time.Duration(len(s.samples))*sampleEvery,
			time.Duration(len(old))*sampleEvery+youth, last.goroutines, g, mib(last.live), h)
	}
	if err := l.err(); err != nil {
		return err
	}
	switch {
	case worst == 0:
		return fmt.Errorf("no stretch is long enough to decide whether a replica grows; run it --for longer, or with a longer --restart-every")
	case worst > growth:
		return fmt.Errorf("a replica grew to %.2f times what it was", worst)
	}
	fmt.Println("\nno call failed, nothing grew")
	return nil
}

func mean(samples []figures) (m figures) {
	for _, s := range samples {
		m.goroutines += s.goroutines / float64(len(samples))
		m.live += s.live / float64(len(samples))
	}
	return m
}
