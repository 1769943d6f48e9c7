package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// watched is what a watch of the whole fleet has seen.
type watched struct {
	mu sync.Mutex
	// closed is when the gate was seen closed; versions are all that were seen
	// since the opening.
	closed   map[string]time.Time
	versions map[string]int
}

func answers(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}

func (b *gateBench) watchFleet(ctx context.Context) error {
	b.watched = &watched{closed: map[string]time.Time{}, versions: map[string]int{}}
	for k := range b.size.kinds {
		list, err := b.of(k).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		w, err := b.of(k).Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			return err
		}
		go func() {
			for e := range w.ResultChan() {
				if o, ok := e.Object.(*unstructured.Unstructured); ok {
					b.watched.see(o)
				}
			}
		}()
	}
	return nil
}

func (w *watched) see(o *unstructured.Unstructured) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.versions[o.GetName()]++
	if strings.Contains(o.GetAnnotations()["kausality.io/gate"], `"closed"`) {
		if _, ok := w.closed[o.GetName()]; !ok {
			w.closed[o.GetName()] = now
		}
	}
}

func (w *watched) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.closed, name)
	delete(w.versions, name)
}

// open a gate as the webhook does, in one write with the change.
func (b *gateBench) open(ctx context.Context, i, generation int) error {
	b.watched.forget(name(i))
	body := fmt.Sprintf(`{"metadata":{"annotations":{"kausality.io/gate":%q}},"spec":{"managementPolicies":["Observe","Update"],"forProvider":{"size":%d}}}`, gateText("open", generation), generation)
	_, err := b.of(i).Patch(ctx, name(i), types.MergePatchType, []byte(body), metav1.PatchOptions{})
	return err
}

// atRate: so many providers a second confirm.
func (b *gateBench) atRate(ctx context.Context) error {
	reported := make([]time.Time, b.size.closings)
	tick := time.NewTicker(time.Second / time.Duration(b.size.rate))
	defer tick.Stop()
	for i := range b.size.closings {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := b.open(ctx, i, 2); err != nil {
			return err
		}
		reported[i] = time.Now() // before it is stored: the longest that it can be
		if err := b.report(ctx, i, 2); err != nil {
			return err
		}
	}
	took, extra, err := b.await(ctx, 0, reported)
	if err != nil {
		return err
	}
	fmt.Printf("\nfrom the provider's confirming status to the closed gate, %d at %d a second:\n", b.size.closings, b.size.rate)
	fmt.Printf("%-52s %s\n%-52s %s\n%-52s %s\n", "median", ms(quantile(took, 0.5)), "p99", ms(quantile(took, 0.99)), "longest", ms(quantile(took, 1)))
	fmt.Printf("%-52s %6.2f\n", "writes to the managed resource per closing", extra)
	return nil
}

// await all closings from a number on. extra are the writes that were not ours,
// per managed resource.
func (b *gateBench) await(ctx context.Context, from int, reported []time.Time) (took []time.Duration, extra float64, err error) {
	const ours = 2 // the opening and the status
	for deadline := time.Now().Add(5 * time.Minute); ; {
		took, extra = took[:0], 0
		b.watched.mu.Lock()
		for i, at := range reported {
			if closed, ok := b.watched.closed[name(from+i)]; ok {
				took = append(took, closed.Sub(at))
				extra += float64(b.watched.versions[name(from+i)] - ours)
			}
		}
		b.watched.mu.Unlock()
		if len(took) == len(reported) {
			return took, extra / float64(len(reported)), nil
		}
		if time.Now().After(deadline) {
			return nil, 0, fmt.Errorf("%d of %d gates closed in time", len(took), len(reported))
		}
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-time.After(20 * time.Millisecond): // the watch fills in what is looked at
		}
	}
}

// saturated: all providers confirm at once.
func (b *gateBench) saturated(ctx context.Context) error {
	from, n := b.size.closings, b.size.closings
	if err := each(n, func(i int) error { return b.open(ctx, from+i, 2) }); err != nil {
		return err
	}
	reported, start := make([]time.Time, n), time.Now()
	if err := each(n, func(i int) error { reported[i] = time.Now(); return b.report(ctx, from+i, 2) }); err != nil {
		return err
	}
	stored := time.Since(start)
	_, extra, err := b.await(ctx, from, reported)
	if err != nil {
		return err
	}
	last := start
	b.watched.mu.Lock()
	for i := range n {
		if at := b.watched.closed[name(from+i)]; at.After(last) {
			last = at
		}
	}
	b.watched.mu.Unlock()
	fmt.Printf("\n%d at once (their statuses alone took %s):\n%-52s %6.1f\n%-52s %6.2f\n", n, stored.Round(time.Millisecond),
		"gates closed a second", float64(n)/last.Sub(start).Seconds(), "writes to the managed resource per closing", extra)
	return nil
}
