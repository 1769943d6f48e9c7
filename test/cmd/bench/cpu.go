package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// cpuWrites of each webhook, in turns of cpuTurn: CPU time is counted in hundredths of a second.
	cpuWrites, cpuTurn = 3000, 500
	// cpuRatio is how many times the CPU of the no-op webhook ours may take, which reads both objects, decides,
	// returns a patch, and watches what is written.
	cpuRatio = 2.5
)

// cpuArms are the webhooks whose CPU is compared.
var cpuArms = []string{"noop", "kausality"}

// cpu of the webhooks for writes to the child of a reconciling parent, one after another. Each webhook has kinds of its own: ours watches
// what is written of those that it guards.
func (b *bench) cpu(ctx context.Context) error {
	loads := map[string]*load{}
	for _, a := range cpuArms {
		l, err := newLoad(b, resource(a).Group)
		if err != nil {
			return err
		}
		loads[a] = l
		if err := l.reconciling(ctx, "cpu"); err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
	}
	took := map[string]time.Duration{}
	for i := range cpuWrites / cpuTurn {
		for _, a := range cpuArms {
			before, err := cpuOf(b.processes[a].Pid())
			if err != nil {
				return err
			}
			if err := loads[a].reconcile(ctx, "cpu", i*cpuTurn, cpuTurn); err != nil {
				return fmt.Errorf("%s: %w", a, err)
			}
			after, err := cpuOf(b.processes[a].Pid())
			if err != nil {
				return err
			}
			took[a] += after - before
		}
	}
	fmt.Printf("\nCPU of each webhook for %d writes to a child of 3.5 KB, whose parent reconciles:\n\n", cpuWrites)
	f := &aims{}
	for _, a := range cpuArms {
		f.print(a, took[a].Seconds()/cpuWrites*1e6, 0, "µs a write")
	}
	f.print("kausality over noop", took["kausality"].Seconds()/took["noop"].Seconds(), cpuRatio, "times")
	return f.err()
}

// reconciling parent of a name, with a child: its controller has yet to observe the newest intent.
func (l *load) reconciling(ctx context.Context, name string) error {
	if !l.create(ctx, name) {
		return l.err()
	}
	_, err := l.apps(l.ctrl).Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("cannot write the status of the parent: %w", err)
	}
	if _, err := l.apps(l.hans).Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"size":1}}`), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("cannot change the parent: %w", err)
	}
	return nil
}

// reconcile the child: n writes, each another.
func (l *load) reconcile(ctx context.Context, name string, from, n int) error {
	for i := range n {
		if _, err := l.parts(l.ctrl).Patch(ctx, name, types.MergePatchType, size(from+i+1), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("cannot write the child: %w", err)
		}
	}
	return nil
}
