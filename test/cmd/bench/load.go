package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// load is what users and controllers do with Apps and their Parts, repeatedly,
// each step with its expected outcome.
type load struct {
	// group of the Apps and Parts.
	group      string
	hans, ctrl dynamic.Interface
	started    time.Time

	// full is closed once every worker went through its Apps fullRounds times.
	full chan struct{}

	mu     sync.Mutex
	filled int            // workers that did
	counts map[string]int // by the outcome of a call
	failed int
	errors []error // the first of them
}

const (
	appsPerWorker = 10
	// fullRounds is when all has been seen that is kept: 64 used approvals of each
	// App (package approval), and 1,000 resolved Drifts (package webhook). What grows
	// after that is a leak.
	fullRounds = 66
	// fullWithin is how long that may take.
	fullWithin = 20 * time.Minute
	// tolerable is one drift in that many that passes: the latch is asynchronous.
	tolerable = 1000
	// maxErrors that are kept.
	maxErrors = 10
	// settleWithin is how long the asynchronous writer may take, restarts
	// included.
	settleWithin = time.Minute
)

func newLoad(b *bench, group string) (*load, error) {
	l := &load{group: group, started: time.Now(), full: make(chan struct{}), counts: map[string]int{}}
	for user, to := range map[string]*dynamic.Interface{"hans@example.com": &l.hans, "system:serviceaccount:apps:app-controller": &l.ctrl} {
		config := b.ConfigAs(user, "system:masters")
		config.QPS = -1
		var err error
		if *to, err = dynamic.NewForConfig(config); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *load) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d allowed, %d drifts refused, %d approved, %d wrongly admitted, %d failed",
		l.counts["allowed"], l.counts["refused"], l.counts["approved"], l.counts["wrong"], l.failed)
}

// err of calls that failed, the first of them, or of too many drifts that passed.
func (l *load) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed > 0 {
		return fmt.Errorf("%d calls failed; the first:\n%w", l.failed, errors.Join(l.errors...))
	}
	if wrong, refused := l.counts["wrong"], l.counts["refused"]; wrong*tolerable > refused {
		return fmt.Errorf("%d drifts passed that should not, %d were refused", wrong, refused)
	}
	return nil
}

// note the outcome of a call; unexpected ones are kept.
func (l *load) note(ctx context.Context, what string, err error) bool {
	if ctx.Err() != nil {
		return false // the time is up
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.counts[what]++
		return true
	}
	l.failed++
	if len(l.errors) < maxErrors {
		l.errors = append(l.errors, fmt.Errorf("after %s: %s: %w", time.Since(l.started).Round(time.Second), what, err))
	}
	return false
}

func (l *load) apps(c dynamic.Interface) dynamic.ResourceInterface {
	return c.Resource(schema.GroupVersionResource{Group: l.group, Version: "v1", Resource: "apps"}).Namespace("default")
}

func (l *load) parts(c dynamic.Interface) dynamic.ResourceInterface {
	return c.Resource(schema.GroupVersionResource{Group: l.group, Version: "v1", Resource: "parts"}).Namespace("default")
}

// work through a worker's Apps until the context ends.
func (l *load) work(ctx context.Context, worker int) {
	for round := 1; ctx.Err() == nil; round++ {
		for i := range appsPerWorker {
			l.app(ctx, fmt.Sprintf("app-%d-%02d", worker, i), round)
		}
		// Now all had time to settle.
		for i := range appsPerWorker {
			l.drift(ctx, fmt.Sprintf("app-%d-%02d", worker, i), round)
		}
		if round == fullRounds {
			l.fills()
		}
	}
}

func (l *load) fills() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.filled++; l.filled == soakWorkers {
		close(l.full)
	}
}

// app gets a new intent, which its controller carries to the Part.
func (l *load) app(ctx context.Context, name string, round int) {
	if round == 1 && !l.create(ctx, name) {
		return
	}
	app, err := l.apps(l.hans).Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"size":%d}}`, round), metav1.PatchOptions{})
	if !l.note(ctx, "allowed", err) {
		return
	}
	for range 2 { // controllers write twice
		_, err = l.parts(l.ctrl).Patch(ctx, name, types.MergePatchType, size(round), metav1.PatchOptions{})
		l.note(ctx, "allowed", err)
	}
	_, err = l.parts(l.ctrl).Patch(ctx, name, types.MergePatchType, size(-round), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	l.note(ctx, "allowed", err)
	_, err = l.apps(l.ctrl).Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"status":{"observedGeneration":%d}}`,
		app.GetGeneration()), metav1.PatchOptions{}, "status")
	l.note(ctx, "allowed", err)
	if round == 1 {
		return // until a controller is recorded, the user who creates a Part counts as the controller
	}
	extra := part(app, fmt.Sprintf("%s-%d", name, round))
	_, err = l.parts(l.hans).Create(ctx, extra, metav1.CreateOptions{})
	if l.note(ctx, "allowed", err) {
		l.note(ctx, "allowed", l.parts(l.hans).Delete(ctx, extra.GetName(), metav1.DeleteOptions{}))
	}
}

func size(n int) []byte { return fmt.Appendf(nil, `{"spec":{"size":%d}}`, n) }

func (l *load) create(ctx context.Context, name string) bool {
	app := thing(l.group, name)
	app.SetKind("App")
	app, err := l.apps(l.hans).Create(ctx, app, metav1.CreateOptions{})
	if !l.note(ctx, "allowed", err) {
		return false
	}
	_, err = l.parts(l.ctrl).Create(ctx, part(app, name), metav1.CreateOptions{})
	return l.note(ctx, "allowed", err)
}

func part(app *unstructured.Unstructured, name string) *unstructured.Unstructured {
	p := thing(app.GroupVersionKind().Group, name)
	p.SetKind("Part")
	yes := true
	p.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: app.GetAPIVersion(), Kind: "App", Name: app.GetName(), UID: app.GetUID(), Controller: &yes}})
	return p
}

// drift of a Part is refused once its App settled, and passes once approved.
func (l *load) drift(ctx context.Context, name string, round int) {
	generation, err := l.settled(ctx, name)
	if !l.note(ctx, "settled", err) {
		return
	}
	drift := size(round + 1_000_000)
	_, err = l.parts(l.ctrl).Patch(ctx, name, types.MergePatchType, drift, metav1.PatchOptions{})
	switch {
	case err == nil:
		l.note(ctx, "wrong", nil)
		return
	case !refused(err):
		l.note(ctx, "refused", err)
		return
	}
	l.note(ctx, "refused", nil)
	// The same entry written again is no new approval, so each has its generation.
	entry := fmt.Sprintf(`[{"kind":"Part","name":%q,"generation":%d}]`, name, generation)
	approve := fmt.Appendf(nil, `{"metadata":{"annotations":{"kausality.io/approvals":%q}}}`, entry)
	if _, err := l.apps(l.hans).Patch(ctx, name, types.MergePatchType, approve, metav1.PatchOptions{}); !l.note(ctx, "allowed", err) {
		return
	}
	_, err = l.parts(l.ctrl).Patch(ctx, name, types.MergePatchType, drift, metav1.PatchOptions{})
	l.note(ctx, "approved", err)
}

func refused(err error) bool {
	var s *kerrors.StatusError
	return errors.As(err, &s) && s.ErrStatus.Code == 403 && s.ErrStatus.Details != nil && len(s.ErrStatus.Details.Causes) > 0 &&
		s.ErrStatus.Details.Causes[0].Type == "Drift"
}

// settled waits until the asynchronous writer latched the App's intent, and
// returns its generation.
func (l *load) settled(ctx context.Context, name string) (int64, error) {
	for end := time.Now().Add(settleWithin); ; {
		app, err := l.apps(l.hans).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		latch, err := strconv.ParseInt(app.GetAnnotations()["kausality.io/settled-generation"], 10, 64)
		if err == nil && latch >= app.GetGeneration() {
			return latch, nil
		}
		if time.Now().After(end) {
			return 0, fmt.Errorf("%s has settled at %d and not at generation %d within %s", name, latch, app.GetGeneration(), settleWithin)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
}
