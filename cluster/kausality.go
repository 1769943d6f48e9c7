package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// PolicyCRD is the CRD of the Kausality policies.
const PolicyCRD = "kausalities." + v1alpha1.Group

var policyResource = schema.GroupVersionResource{Group: v1alpha1.Group, Version: "v1alpha1", Resource: "kausalities"}

// Policies are the Kausality policies of a cluster, compiled. It is safe for
// concurrent use.
type Policies struct {
	informer cache.SharedIndexInformer
	taken    cache.ResourceEventHandlerRegistration
	// missing: the CRD was not installed when the policies were listed.
	missing  atomic.Bool
	crds     dynamic.ResourceInterface
	onChange []func()

	mu     sync.RWMutex
	byName map[string]*v1alpha1.Kausality
	set    settings.Set
}

// policy is what the watch keeps: nil where the object is not one.
type policy struct {
	objectMeta
	k *v1alpha1.Kausality
}

// NewPolicies returns Policies that hold none until Run. A cluster without their
// CRD has none.
func NewPolicies(client dynamic.Interface) (*Policies, error) {
	p := &Policies{crds: client.Resource(crdResource), byName: map[string]*v1alpha1.Kausality{}}
	p.informer = newInformer(client, policyResource, "", func(o *unstructured.Unstructured) any { return policyOf(o) })
	err := p.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if kerrors.IsNotFound(err) { // no CRD, no policies; it may be installed later
			p.missing.Store(true)
			return
		}
		WatchFailed(ctx, r, err)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot watch policies: %w", err)
	}
	p.taken, err = p.informer.AddEventHandler(Handler("policies", cache.ResourceEventHandlerFuncs{
		AddFunc: p.learn, UpdateFunc: func(_, o any) { p.learn(o) }, DeleteFunc: p.forget,
	}))
	if err != nil {
		return nil, fmt.Errorf("cannot watch policies: %w", err)
	}
	return p, nil
}

// policyOf an object; without content where this release cannot decode it, so that an
// older process ignores a newer policy instead of stopping its watch.
func policyOf(o *unstructured.Unstructured) *policy {
	out := &policy{objectMeta: metaOf(o), k: &v1alpha1.Kausality{}}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out.k); err != nil {
		out.k = nil // of a newer version; the controller reports that in its status
	}
	return out
}

// OnChange calls f when the policies in force may have changed. Call it before
// Run.
func (p *Policies) OnChange(f func()) { p.onChange = append(p.onChange, f) }

// Run the watch until the context ends.
func (p *Policies) Run(ctx context.Context) { p.informer.RunWithContext(ctx) }

// HasSynced reports whether the policies were read and are in force. A cluster
// without their CRD has none.
func (p *Policies) HasSynced() bool { return p.missing.Load() || p.taken.HasSynced() }

// Set of policies as they are now.
func (p *Policies) Set() settings.Set {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.set
}

// Initialized are the condition types by which a kind counts as initialized.
func (p *Policies) Initialized(gk schema.GroupKind) []string {
	return p.Set().Initialized(gk.Group, gk.Kind)
}

// learn a policy that was added or changed.
func (p *Policies) learn(o any) {
	if one, ok := o.(*policy); ok && one.k != nil {
		p.change(func() bool {
			have := p.byName[one.m.Name]
			p.byName[one.m.Name] = one.k
			return have == nil || have.UID != one.k.UID || have.Generation != one.k.Generation
		})
	}
}

// forget a policy that was deleted. Those that went with their CRD stay in force
// in this process: a user who removes a CRD has not decided about everything
// that was guarded by its objects.
func (p *Policies) forget(o any) {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	one, ok := o.(*policy)
	if !ok || p.withCRD() {
		return
	}
	p.change(func() bool {
		_, had := p.byName[one.m.Name]
		delete(p.byName, one.m.Name)
		return had
	})
}

// withCRD reports whether the CRD is being removed or gone, or cannot be
// read.
func (p *Policies) withCRD() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	crd, err := p.crds.Get(ctx, PolicyCRD, metav1.GetOptions{})
	return err != nil || crd.GetDeletionTimestamp() != nil
}

// change the policies by f, which reports whether it changed any. The locks of
// event handlers are released by defer: a panic must not leave them locked.
func (p *Policies) change(f func() bool) {
	if p.compile(f) {
		call(p.onChange)
	}
}

// compile the policies again if f changed them.
func (p *Policies) compile(f func() bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := f()
	if changed {
		p.set, _ = settings.Compile(slices.Collect(maps.Values(p.byName))) // the controller reports errors in the status
	}
	return changed
}
