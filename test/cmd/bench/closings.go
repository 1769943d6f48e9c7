package main

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
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
	// reached is when the gate was first seen in a state, by STATE/NAME; versions
	// are all that were seen of an object. Both since it was forgotten.
	reached  map[string]time.Time
	versions map[string]int
}

func (b *gateBench) watchFleet(ctx context.Context) error {
	b.watched = &watched{reached: map[string]time.Time{}, versions: map[string]int{}}
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
	for _, state := range []string{"open", "closed"} {
		key := state + "/" + o.GetName()
		if _, ok := w.reached[key]; !ok && strings.Contains(o.GetAnnotations()["kausality.io/gate"], `"state":"`+state+`"`) {
			w.reached[key] = now
		}
	}
}

func (w *watched) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reached, "open/"+name)
	delete(w.reached, "closed/"+name)
	delete(w.versions, name)
}

// at is when a gate was first seen in a state.
func (w *watched) at(state string, i int) (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, ok := w.reached[state+"/"+name(i)]
	return t, ok
}

// most versions that any of n objects had.
func (w *watched) most(from, n int) (most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range n {
		most = max(most, w.versions[name(from+i)])
	}
	return most
}

// await a state of n gates from a number on.
func (b *gateBench) await(ctx context.Context, state string, from, n int) error {
	for deadline := time.Now().Add(5 * time.Minute); ; {
		missing := 0
		for i := range n {
			if _, ok := b.watched.at(state, from+i); !ok {
				missing++
			}
		}
		switch {
		case missing == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%d of %d gates are not %s in time", missing, n, state)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil { // the watch updates the states meanwhile
			return err
		}
	}
}

// patches of the gate that the API server has taken so far: its writes to managed
// resources are patches, and there is nothing else here that it would patch.
func (b *gateBench) patches(ctx context.Context) (n float64, err error) {
	resp, err := fetch(ctx, b.metrics)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		labels, value, ok := strings.Cut(lines.Text(), "} ")
		if !ok || !strings.HasPrefix(labels, "rest_client_requests_total{") || !strings.Contains(labels, `method="PATCH"`) || !strings.Contains(labels, `code="2`) {
			continue
		}
		one, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("cannot read %q: %w", lines.Text(), err)
		}
		n += one
	}
	return n, lines.Err()
}

// open a gate as the webhook does, in one write with the change.
func (b *gateBench) open(ctx context.Context, i int) error {
	const size = 2
	b.watched.forget(name(i))
	body := fmt.Sprintf(`{"metadata":{"annotations":{"kausality.io/gate":%q}},"spec":{"managementPolicies":["Observe","Update"],`+
		`"forProvider":{"size":%d}}}`, gateText("open", 2), size)
	_, err := b.of(i).Patch(ctx, name(i), types.MergePatchType, []byte(body), metav1.PatchOptions{})
	return err
}

// confirm what open opened.
func (b *gateBench) confirm(ctx context.Context, i int) error { return b.report(ctx, i, 2, 2) }

// paced calls f for every number below n, at the rate.
func (b *gateBench) paced(ctx context.Context, n int, f func(i int) error) error {
	tick := time.NewTicker(time.Second / time.Duration(b.size.rate))
	defer tick.Stop()
	for i := range n {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

// atRate: so many providers a second confirm.
func (b *gateBench) atRate(ctx context.Context) error {
	n, sent := b.size.closings, make([]time.Time, b.size.closings)
	before, err := b.patches(ctx)
	if err != nil {
		return err
	}
	err = b.paced(ctx, n, func(i int) error {
		if err := b.open(ctx, i); err != nil {
			return err
		}
		sent[i] = time.Now() // before it is stored: the longest that it can be
		return b.confirm(ctx, i)
	})
	if err != nil {
		return err
	}
	if err := b.await(ctx, "closed", 0, n); err != nil {
		return err
	}
	fmt.Printf("\nfrom the provider's confirming status to the closed gate, %d at %d a second:\n", n, b.size.rate)
	b.printLatency(sent, "closed", 0, gateP99)
	b.print("writes to a managed resource for a closing, most", float64(b.watched.most(0, n)-2), gateWrites, "") // 2: opening and status
	return b.printPatches(ctx, "patches sent for a closing, mean", before, n, gateWrites)
}

func (b *gateBench) printLatency(sent []time.Time, state string, from int, aim float64) {
	took := make([]time.Duration, 0, len(sent))
	for i, at := range sent {
		if reached, ok := b.watched.at(state, from+i); ok {
			took = append(took, reached.Sub(at))
		}
	}
	ms := func(q float64) float64 { return float64(quantile(took, q)) / float64(time.Millisecond) }
	b.print("median", ms(0.5), 0, "ms")
	b.print("p99", ms(0.99), aim, "ms")
	b.print("longest", ms(1), 0, "ms")
}

func (b *gateBench) printPatches(ctx context.Context, what string, before float64, n int, aim float64) error {
	after, err := b.patches(ctx)
	if err == nil && after == before {
		err = fmt.Errorf("the gate's metrics count no patches")
	}
	b.print(what, (after-before)/float64(n), aim, "")
	return err
}

const onceApproved = `{"metadata":{"annotations":{"kausality.io/approvals":"[{\"kind\":\"*\",\"name\":\"*\",\"relation\":\"External\",\"mode\":\"once\"}]"}}}`

// openings by the gate: an external change is approved already, and so the gate
// opens, and closes once the provider has reverted it.
func (b *gateBench) openings(ctx context.Context) error {
	n, from := b.size.closings, 2*b.size.closings
	err := each(n, func(i int) error {
		_, err := b.of(from+i).Patch(ctx, name(from+i), types.MergePatchType, []byte(onceApproved), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return err
	}
	before, err := b.patches(ctx)
	if err != nil {
		return err
	}
	sent := make([]time.Time, n)
	err = b.paced(ctx, n, func(i int) error {
		b.watched.forget(name(from + i))
		sent[i] = time.Now()
		return b.report(ctx, from+i, 1, 7)
	})
	if err != nil {
		return err
	}
	if err := b.await(ctx, "open", from, n); err != nil {
		return err
	}
	fmt.Printf("\nfrom the status that shows an approved difference to the open gate, %d at %d a second:\n", n, b.size.rate)
	b.printLatency(sent, "open", from, 0)
	b.print("writes to a managed resource for an opening, most", float64(b.watched.most(from, n)-1), gateWrites, "") // 1: the status
	if err := b.printPatches(ctx, "patches sent for an opening by a once approval, mean", before, n, gateWrites); err != nil {
		return err
	}
	return b.closeAgain(ctx, from, n)
}

// closeAgain what was opened by approvals; that finishes them.
func (b *gateBench) closeAgain(ctx context.Context, from, n int) error {
	before, err := b.patches(ctx)
	if err != nil {
		return err
	}
	for i := range n {
		b.watched.forget(name(from + i))
	}
	if err := each(n, func(i int) error { return b.report(ctx, from+i, 2, 1) }); err != nil {
		return err
	}
	if err := b.await(ctx, "closed", from, n); err != nil {
		return err
	}
	b.print("writes to a managed resource for closing that, most", float64(b.watched.most(from, n)-1), gateWrites, "")
	return b.printPatches(ctx, "patches sent for closing that, mean", before, n, gateWrites)
}

// saturated: all providers confirm at once.
func (b *gateBench) saturated(ctx context.Context) error {
	from, n := b.size.closings, b.size.closings
	if err := each(n, func(i int) error { return b.open(ctx, from+i) }); err != nil {
		return err
	}
	start := time.Now()
	if err := each(n, func(i int) error { return b.confirm(ctx, from+i) }); err != nil {
		return err
	}
	stored := time.Since(start)
	if err := b.await(ctx, "closed", from, n); err != nil {
		return err
	}
	last := start
	for i := range n {
		if at, _ := b.watched.at("closed", from+i); at.After(last) {
			last = at
		}
	}
	fmt.Printf("\n%d at once (their statuses alone took %s):\n", n, stored.Round(time.Millisecond))
	b.print("gates closed a second: where it saturates", float64(n)/last.Sub(start).Seconds(), 0, "")
	b.print("writes to a managed resource for a closing, most", float64(b.watched.most(from, n)-2), gateWrites, "")
	return nil
}
