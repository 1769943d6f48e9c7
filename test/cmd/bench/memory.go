package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/test/controlplane"
)

const (
	// heapTarget and residentTarget for 10,000 parents of 50 kinds.
	heapTarget     = 40 << 20
	residentTarget = 96 << 20
	// warmFor is when resident memory is read, after the start.
	warmFor = time.Minute
	// collectEvery is how often the Go runtime collects an idle heap.
	collectEvery = 2 * time.Minute
)

// memory measures what a webhook holds of many parents, right after a start,
// when it has just read all of them.
func memory(ctx context.Context, o options) error {
	b, err := start(ctx)
	if err != nil {
		return err
	}
	defer b.Stop()
	groups, resources := make([]string, o.kinds), make([]string, o.kinds)
	kinds := make([]controlplane.Kind, o.kinds)
	for i := range groups {
		groups[i] = fmt.Sprintf("k%02d.bench.example.org", i)
		resources[i] = "*." + groups[i]
		kinds[i] = controlplane.Kind{Group: groups[i], Kind: "Thing", Categories: []string{"composite"}}
	}
	if err := b.Define(ctx, kinds...); err != nil {
		return err
	}
	k, err := b.startKausality(ctx, resources)
	if err != nil {
		return err
	}
	empty, err := k.settled(ctx)
	if err != nil {
		return err
	}
	// The parents come as they are once they settled, which no webhook allows.
	k.Stop()
	if err := b.unconfigure(ctx); err != nil {
		return err
	}
	if err := b.createParents(ctx, groups, o.objects); err != nil {
		return err
	}
	if err := b.configure(ctx, k.address, resources); err != nil {
		return err
	}
	if err := k.Restart(); err != nil {
		return err
	}
	full, err := k.settled(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("\nmemory of the webhook, %s after its start:\n\n%-34s %12s %12s\n", warmFor, "", "live heap", "resident")
	fmt.Printf("%-34s %8.1f MiB %8.1f MiB\n", fmt.Sprintf("%d kinds, no parents", o.kinds), mib(empty.live), mib(empty.resident))
	fmt.Printf("%-34s %8.1f MiB %8.1f MiB\n", fmt.Sprintf("%d kinds, %d parents", o.kinds, o.objects), mib(full.live), mib(full.resident))
	fmt.Printf("%-34s %8.1f MiB %8.1f MiB\n", "target", mib(heapTarget), mib(residentTarget))
	fmt.Printf("%-34s %8.0f B   (an object has 3.5 KB)\n", "live heap per parent", (full.live-empty.live)/float64(o.objects))
	if full.live > heapTarget || full.resident > residentTarget {
		return fmt.Errorf("the target is missed")
	}
	return nil
}

func mib(bytes float64) float64 { return bytes / (1 << 20) }

// unconfigure the API server.
func (b *bench) unconfigure(ctx context.Context) error {
	r := b.client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"})
	return r.Delete(ctx, "kausality", metav1.DeleteOptions{})
}

// traced are the annotations that a parent has once it settled.
func traced(group, name string) map[string]string {
	return map[string]string{
		"bench.example.org/by": "bench", "kausality.io/phase": "initialized", "kausality.io/settled-generation": "1",
		"kausality.io/settled-state": "1,0123456789abcdef", "kausality.io/controllers": "2m2kc",
		"kausality.io/controller-ids": "0123456789abcdef0123456789abcdef",
		"kausality.io/trace": fmt.Sprintf(`[{"apiVersion":%q,"kind":"Thing","name":%q,"generation":1,"user":"hans@example.com",`+
			`"timestamp":"2026-01-01T00:00:00Z"}]`, group+"/v1", name),
	}
}

// createParents as large as XRs are, with a status, and as they are once they
// settled.
func (b *bench) createParents(ctx context.Context, groups []string, n int) error {
	if err := b.awaitUnconfigured(ctx, groups[0]); err != nil {
		return err
	}
	started := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range n {
		g.Go(func() error {
			group := groups[i%len(groups)]
			r := b.client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}).Namespace("default")
			o := thing(group, fmt.Sprintf("thing-%05d", i))
			o.SetAnnotations(traced(group, o.GetName()))
			created, err := r.Create(ctx, o, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			created.Object["status"] = map[string]any{"conditions": []any{condition("Synced"), condition("Ready")}}
			_, err = r.UpdateStatus(ctx, created, metav1.UpdateOptions{})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	fmt.Printf("created %d parents in %s\n", n, time.Since(started).Round(time.Second))
	return nil
}

// awaitUnconfigured waits until the API server calls no webhook any more.
func (b *bench) awaitUnconfigured(ctx context.Context, group string) error {
	r := b.client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}).Namespace("default")
	return controlplane.Eventually(ctx, "the API server to call no webhook", 10*time.Second, func(ctx context.Context) error {
		_, err := r.Create(ctx, thing(group, "probe"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

func condition(name string) map[string]any {
	return map[string]any{"type": name, "status": "True", "reason": "Available", "observedGeneration": int64(1), "lastTransitionTime": "2026-01-01T00:00:00Z"}
}

// thing of 3.5 KB.
func thing(group, name string) *unstructured.Unstructured {
	data := map[string]any{}
	for i := range 60 {
		data[fmt.Sprintf("field%02d", i)] = strings.Repeat("x", 40)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "Thing",
		"metadata": map[string]any{"name": name, "annotations": map[string]any{"bench.example.org/by": "bench"}},
		"spec":     map[string]any{"count": int64(0), "data": data},
	}}
}

// figures of a process, in bytes but for goroutines and the decisions made.
type figures struct{ live, resident, goroutines, decisions float64 }

// settled waits until a replica is ready, warm and has collected its heap, and
// returns its figures.
func (k *kausality) settled(ctx context.Context) (figures, error) {
	if err := k.awaitReady(ctx); err != nil {
		return figures{}, err
	}
	if err := pause(ctx, warmFor); err != nil {
		return figures{}, err
	}
	warm, err := k.figures(ctx)
	if err != nil {
		return warm, err
	}
	// The live heap is known as of the last collection: wait for one.
	if err := pause(ctx, collectEvery); err != nil {
		return warm, err
	}
	late, err := k.figures(ctx)
	warm.live = late.live
	return warm, err
}

func (k *kausality) awaitReady(ctx context.Context) error {
	return controlplane.Eventually(ctx, "the webhook to be ready", 40*time.Second, func(ctx context.Context) error {
		if err := k.Err(); err != nil {
			return err
		}
		return controlplane.Answers(ctx, k.probe)
	})
}

func fetch(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}

// figures as the replica's metrics have them.
func (k *kausality) figures(ctx context.Context) (f figures, err error) {
	all, err := k.read(ctx)
	if err != nil {
		return f, err
	}
	for name, to := range map[string]*float64{"go_gc_heap_live_bytes": &f.live, "process_resident_memory_bytes": &f.resident, "go_goroutines": &f.goroutines} {
		m := all[name].GetMetric()
		if len(m) != 1 {
			return f, fmt.Errorf("%s has no %s", k.metrics, name)
		}
		*to = m[0].GetGauge().GetValue() + m[0].GetUntyped().GetValue()
	}
	for _, m := range all["kausality_decision_seconds"].GetMetric() {
		f.decisions += float64(m.GetHistogram().GetSampleCount())
	}
	return f, nil
}

// read the replica's metrics.
func (k *kausality) read(ctx context.Context) (controlplane.Metrics, error) {
	return controlplane.ReadMetrics(ctx, k.metrics)
}

// pause for a while.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
