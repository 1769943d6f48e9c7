package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

func definition(k int) story.Definition {
	name := fmt.Sprintf("soak%d", k)
	return story.Definition{Group: "example.org", Version: "v1", Kind: "XS" + name[1:], Plural: "x" + name, Spec: "{size: {type: integer}}"}
}

// composed by each composite: a Database and a ConfigMap. Each revision of the Composition has another tier.
const composed = `
      - name: database
        base: {apiVersion: cloud.example.org/v1alpha1, kind: Database, spec: {forProvider: {size: 0, tags: {tier: tier-%[1]d}}}}
        patches: [{type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: spec.forProvider.size}]
      - name: notes
        base: {apiVersion: v1, kind: ConfigMap, data: {tier: tier-%[1]d}}
        readinessChecks: [{type: None}]
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: data.size, transforms: [{type: convert, convert: {toType: string}}]}`

// kind of composites, on which one thing happens at a time.
type kind struct {
	*soak
	number int
	rng    *rand.Rand
	tier   int
	items  []*item
}

// item is a composite.
type item struct {
	*kind
	name string
	// size that was requested last.
	size int64
	// managed is the Database that is composed.
	managed string
}

func newKind(s *soak, number int) *kind {
	k := &kind{soak: s, number: number, rng: rand.New(rand.NewPCG(*seed, uint64(number)))}
	for i := range *each {
		k.items = append(k.items, &item{kind: k, name: fmt.Sprintf("soak-%d-%d", number, i), size: int64(number**each+i) * ofEach})
	}
	return k
}

func (k *kind) resource() schema.GroupVersionResource { return definition(k.number).Resource() }

func (k *kind) composition() string { return fmt.Sprintf("soak-%d", k.number) }

// compose the next revision of the Composition.
func (k *kind) compose(ctx context.Context) error {
	k.tier++
	manifest := definition(k.number).Composition(k.composition(), fmt.Sprintf(composed, k.tier), story.StepKausality, story.StepAutoReady)
	return k.insist(ctx, "to apply a Composition", func(ctx context.Context) error { return the.Apply(ctx, manifest) })
}

func of(user string, g schema.GroupVersionResource) dynamic.ResourceInterface {
	return the.users[user].Resource(g).Namespace("default")
}

// create the composites of the kind.
func (k *kind) create(ctx context.Context) error {
	if err := k.compose(ctx); err != nil {
		return err
	}
	return together(ctx, k.items, (*item).create)
}

// together some do something.
func together[T any](ctx context.Context, all []T, do func(T, context.Context) error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() { errs[i] = do(one, ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// patience with what follows from a request, while processes are killed.
const patience = 3 * time.Minute

// insist until f succeeds: users and tools repeat what failed.
func (s *soak) insist(ctx context.Context, what string, f func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, controlplane.Patience(patience))
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	began := time.Now()
	for {
		one, end := context.WithTimeout(limited, 10*time.Second)
		err := f(one)
		end()
		if err == nil {
			return nil
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("waited %s for %s: %w", time.Since(began).Round(time.Second), what, err)
		case <-tick.C:
		}
	}
}

// next size that hans requests, which no other composite has.
func (i *item) next() {
	i.size++
	i.mu.Lock()
	defer i.mu.Unlock()
	i.requested[i.size] = true
}

// request the next size, as hans.
func (i *item) request(ctx context.Context) error {
	i.next()
	return i.insist(ctx, "hans to request a size of "+i.name, func(ctx context.Context) error {
		_, err := of(story.Hans, i.resource()).Patch(ctx, i.name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"size":%d}}`, i.size),
			metav1.PatchOptions{FieldManager: "kubectl"})
		return err
	})
}

// create the composite, as hans, and wait until it exists outside, and settled.
func (i *item) create(ctx context.Context) error {
	i.next()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": definition(i.number).Kind,
		"metadata": map[string]any{"name": i.name},
		"spec":     map[string]any{"size": i.size, "crossplane": map[string]any{"compositionRef": map[string]any{"name": i.composition()}}}}}
	if err := i.insist(ctx, "hans to create "+i.name, func(ctx context.Context) error {
		_, err := of(story.Hans, i.resource()).Create(ctx, o.DeepCopy(), metav1.CreateOptions{FieldManager: "kubectl"})
		return ignoreExists(err)
	}); err != nil {
		return err
	}
	if err := i.insist(ctx, i.name+" to compose a Database", i.find); err != nil {
		return err
	}
	if err := i.arrives(ctx); err != nil {
		return err
	}
	return i.insist(ctx, i.name+" to settle", i.settled)
}

// find the Database that is composed.
func (i *item) find(ctx context.Context) error {
	xr, err := of("", i.resource()).Get(ctx, i.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	refs, _, _ := unstructured.NestedSlice(xr.Object, "spec", "crossplane", "resourceRefs")
	for _, r := range refs {
		if r, ok := r.(map[string]any); ok && r["kind"] == "Database" {
			i.managed, _ = r["name"].(string)
			return nil
		}
	}
	return fmt.Errorf("it refers to %v", refs)
}
