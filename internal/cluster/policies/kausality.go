package policies

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
)

// PolicyCRD is the CRD of the Kausality policies.
const PolicyCRD = v1alpha1.ResourceKausalities + "." + v1alpha1.Group

var (
	// Resource of the Kausality policies.
	Resource = v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceKausalities)
	// Kind of the Kausality policies.
	Kind = v1alpha1.GroupVersion.WithKind("Kausality")
)

// Policies are the Kausality policies of a cluster, compiled. It is safe for
// concurrent use.
type Policies struct {
	informer cache.SharedIndexInformer
	taken    cache.ResourceEventHandlerRegistration
	// missing: the CRD was not installed when the policies were listed.
	missing atomic.Bool
	// Defined reports whether the CRD exists, or that is unknown; nil for always unknown.
	Defined  func() bool
	policies dynamic.ResourceInterface
	crds     dynamic.ResourceInterface
	onChange []func()
	// live policies, past the watch.
	live *informer.Recent[settings.Set]

	mu     sync.RWMutex
	byName map[string]*v1alpha1.Kausality
	// deleted policies, names by UIDs, that stay in force until it is known whether their
	// CRD was deleted with them.
	deleted map[types.UID]string
	set     settings.Set
}

// policy is what the watch keeps: nil where the object is not one.
type policy struct {
	informer.Meta
	k *v1alpha1.Kausality
}

// New returns Policies that hold none until Run. A cluster without their
// CRD has none.
func New(client dynamic.Interface) (*Policies, error) {
	p := &Policies{
		policies: client.Resource(Resource), crds: client.Resource(kinds.CRDs),
		byName: map[string]*v1alpha1.Kausality{}, deleted: map[types.UID]string{},
	}
	p.live = informer.NewRecent(p.read)
	p.informer = informer.New(client, Resource, "", func(o *unstructured.Unstructured) any { return policyOf(o) })
	err := p.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if kerrors.IsNotFound(err) { // no CRD, no policies; it may be installed later
			p.missing.Store(true)
			p.awaitServed(ctx)
			return
		}
		informer.WatchFailed(ctx, r, err)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot watch policies: %w", err)
	}
	p.taken, err = p.informer.AddEventHandler(informer.Handler("policies", cache.ResourceEventHandlerFuncs{
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
	out := &policy{Meta: informer.MetaOf(o), k: &v1alpha1.Kausality{}}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out.k); err != nil {
		out.k = nil // of a newer version; the controller reports that in its status
	}
	return out
}

// OnChange calls f when the policies in force may have changed. Call it before
// Run.
func (p *Policies) OnChange(f func()) { p.onChange = append(p.onChange, f) }

// servedCheck is how often it is checked whether missing policies are served.
const servedCheck = 250 * time.Millisecond

// awaitServed waits until policies are served, if their CRD does not exist; it returns at once if that is unknown. The
// watch calls it before it tries again: its backoff, which grows to a minute while the CRD is missing, must not delay the
// Policies of the next CRD, which the policy controller reports as in force. Requests are made only once the CRD exists.
func (p *Policies) awaitServed(ctx context.Context) {
	if p.Defined == nil || p.Defined() {
		return
	}
	// The only error is that the context ended, which ends the watch, too.
	_ = wait.PollUntilContextCancel(ctx, servedCheck, false, func(ctx context.Context) (bool, error) {
		if !p.Defined() {
			return false, nil
		}
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		_, err := p.policies.List(ctx, metav1.ListOptions{Limit: 1})
		return !kerrors.IsNotFound(err), nil
	})
}

// readTimeout bounds a read of the policies or of their CRD.
const readTimeout = 2 * time.Second

// decideDeletedEvery is how often deleted policies are decided about if their CRD could not
// be read when they were deleted.
const decideDeletedEvery = time.Second

// Run the watch until the context ends.
func (p *Policies) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { wait.UntilWithContext(ctx, p.decideDeleted, decideDeletedEvery) })
	p.informer.RunWithContext(ctx)
	wg.Wait()
}

// HasSynced reports whether the policies were read and are in force. A cluster
// without their CRD has none.
func (p *Policies) HasSynced() bool { return p.missing.Load() || p.taken.HasSynced() }

// Set of policies as they are now.
func (p *Policies) Set() settings.Set {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.set
}

// Live returns the Set of policies as they were stored at most FreshFor ago, whatever the watch has (KR-13-74).
func (p *Policies) Live(ctx context.Context) (settings.Set, error) { return p.live.Get(ctx) }

// read the policies past the watch. Those that are gone with their CRD stay in force, as in the watch.
func (p *Policies) read(ctx context.Context) (settings.Set, error) {
	list, err := p.policies.List(ctx, metav1.ListOptions{})
	if kerrors.IsNotFound(err) {
		return p.Set(), nil
	}
	if err != nil {
		return settings.Set{}, fmt.Errorf("cannot read the Kausality policies, whose watch is late: %w", err)
	}
	p.mu.RLock()
	known := maps.Clone(p.byName)
	p.mu.RUnlock()
	stored := map[string]*v1alpha1.Kausality{}
	for i := range list.Items {
		k := policyOf(&list.Items[i]).k
		if k == nil { // of a newer version: what is known of it stays in force
			k = known[list.Items[i].GetName()]
		}
		if k != nil {
			stored[k.Name] = k
		}
		delete(known, list.Items[i].GetName())
	}
	if len(known) > 0 {
		if crd, err := p.crds.Get(ctx, PolicyCRD, metav1.GetOptions{}); err == nil || !kerrors.IsNotFound(err) {
			maps.DeleteFunc(known, func(_ string, k *v1alpha1.Kausality) bool { return err == nil && !withCRD(k, crd) })
		}
		maps.Copy(stored, known)
	}
	set, _ := settings.Compile(slices.Collect(maps.Values(stored)))
	return set, nil
}

// Initialized returns the condition types by which a kind counts as initialized.
func (p *Policies) Initialized(gk schema.GroupKind) []string {
	return p.Set().Initialized(gk.Group, gk.Kind)
}

// Learn a policy that was read.
func (p *Policies) Learn(o *unstructured.Unstructured) { p.learn(policyOf(o)) }

// Learn a policy that was added or changed.
func (p *Policies) learn(o any) {
	if one, ok := o.(*policy); ok && one.k != nil {
		p.change(func() bool {
			have := p.byName[one.ObjectMeta.Name]
			p.byName[one.ObjectMeta.Name] = one.k
			return have == nil || have.UID != one.k.UID || have.Generation != one.k.Generation
		})
	}
}

// Forget a policy that was deleted, as forget does.
func (p *Policies) Forget(o *unstructured.Unstructured) { p.forget(policyOf(o)) }

// forget a policy that was deleted. Those that were deleted with their CRD stay in
// force in this process: a user who removes a CRD has not decided about everything
// that was guarded by its objects.
func (p *Policies) forget(o any) {
	one, ok := informer.Last[*policy](o)
	if !ok {
		return
	}
	p.mu.Lock()
	p.deleted[one.ObjectMeta.UID] = one.ObjectMeta.Name
	p.mu.Unlock()
	p.decideDeleted(context.Background())
}

// decideDeleted policies: whether they are forgotten. While their CRD cannot be read they
// stay in force, and are decided again.
func (p *Policies) decideDeleted(ctx context.Context) {
	p.mu.RLock()
	undecided := maps.Clone(p.deleted)
	p.mu.RUnlock()
	if len(undecided) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	crd, err := p.crds.Get(ctx, PolicyCRD, metav1.GetOptions{})
	if err != nil && !kerrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "cannot read the CRD of deleted policies; they stay in force until it can be read")
		return
	}
	p.change(func() (changed bool) {
		for uid, name := range undecided {
			delete(p.deleted, uid)
			if k := p.byName[name]; err == nil && k != nil && k.UID == uid && !withCRD(k, crd) {
				delete(p.byName, name)
				changed = true
			}
		}
		return changed
	})
}

// withCRD reports whether a policy was deleted with its CRD: the CRD is being removed, or
// is a later one.
func withCRD(k *v1alpha1.Kausality, crd *unstructured.Unstructured) bool {
	created := crd.GetCreationTimestamp()
	return crd.GetDeletionTimestamp() != nil || k.CreationTimestamp.Before(&created)
}

// change the policies by f, which reports whether it changed any. The locks of
// event handlers are released by defer: a panic must not leave them locked.
func (p *Policies) change(f func() bool) {
	if p.compile(f) {
		informer.Call(p.onChange)
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
