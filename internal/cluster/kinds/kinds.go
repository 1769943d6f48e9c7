package kinds

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// CRDs are the resource that defines kinds.
var CRDs = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Info of a kind.
type Info struct {
	identity.Kind
	GVK        schema.GroupVersionKind
	GVR        schema.GroupVersionResource
	Namespaced bool
	// Storage: this version is the stored one; it is the one that is watched.
	Storage bool
	// Status: a CRD gives the kind a status subresource. False for kinds that no
	// CRD defines; see Kinds.hasStatus.
	Status bool
	// ScalePath of the replicas that /scale changes, as in spec.replicas; empty
	// Where a CRD has no such subresource.
	ScalePath string
}

// Kinds are the kinds that the CRDs of a cluster define. They are
// safe for concurrent use.
type Kinds struct {
	Mapper   meta.RESTMapper
	informer cache.SharedIndexInformer
	taken    cache.ResourceEventHandlerRegistration

	mu     sync.RWMutex
	byGVK  map[schema.GroupVersionKind]version
	legacy map[schema.GroupKind]bool
	// builtin kinds have a status and, mostly, no CRD; nil before they were
	// discovered.
	builtin  map[schema.GroupKind]Info
	onChange []func(Info)
	onGone   []func(schema.GroupVersionKind)
	// OnDefined is called with the kind of each CRD that is read, or gone.
	onDefined []func(schema.GroupKind)
	// Missing is called with a kind that is requested and not known; nil where
	// all CRDs are watched.
	Missing func(schema.GroupVersionKind)

	// stale has an element while builtin is to be read again, after which
	// onDiscovered is called; nil where builtin is never read.
	stale       chan struct{}
	OnDiscovery func()
}

// New returns Kinds that is empty until Run. mapper answers for kinds that
// no CRD defines.
func New(client dynamic.Interface, mapper meta.RESTMapper) (*Kinds, error) {
	k := &Kinds{Mapper: mapper, byGVK: map[schema.GroupVersionKind]version{}, legacy: map[schema.GroupKind]bool{}, stale: make(chan struct{}, 1)}
	k.informer = informer.New(client, CRDs, "", func(o *unstructured.Unstructured) any { return definitionOf(o) })
	var err error
	k.taken, err = k.informer.AddEventHandler(informer.Handler("kinds", cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.learn(o) },
		UpdateFunc: func(old, o any) { k.drop(old, o); k.learn(o) },
		DeleteFunc: func(o any) { k.forget(o) },
	}))
	if err != nil {
		return nil, fmt.Errorf("cannot watch CRDs: %w", err)
	}
	return k, nil
}

// OnChange calls f for each kind of a CRD that appears or changes. Call it
// before Run.
func (k *Kinds) OnChange(f func(Info)) { k.onChange = append(k.onChange, f) }

// OnGone calls f for each version of a kind that no CRD serves any more.
// Call it before Run.
func (k *Kinds) OnGone(f func(schema.GroupVersionKind)) { k.onGone = append(k.onGone, f) }

// OnDefined calls f for the kind of each CRD that appears, changes or is gone, its schema
// included. Call it before Run.
func (k *Kinds) OnDefined(f func(schema.GroupKind)) { k.onDefined = append(k.onDefined, f) }

// defines calls the listeners of a definition.
func (k *Kinds) defines(d *definition) {
	if len(d.versions) == 0 {
		return
	}
	for _, f := range k.onDefined {
		f(d.versions[0].GVK.GroupKind())
	}
}

// named returns the served versions of all kinds of a name, unordered.
func (k *Kinds) named(kind string) []Info {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var out []Info
	for gvk, v := range k.byGVK {
		if gvk.Kind == kind {
			out = append(out, v.Info)
		}
	}
	return out
}

// names of all kinds, of one group or of any, unordered.
func (k *Kinds) names(group string, anyGroup bool) []string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var out []string
	for gvk := range k.byGVK {
		if anyGroup || gvk.Group == group {
			out = append(out, gvk.Kind)
		}
	}
	return out
}

// Run the watch until the context ends.
func (k *Kinds) Run(ctx context.Context) { k.informer.RunWithContext(ctx) }

// Synced waits until the CRDs are known.
func (k *Kinds) Synced(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), k.HasSynced)
}

// HasSynced reports whether the CRDs were read and taken.
func (k *Kinds) HasSynced() bool { return k.taken.HasSynced() }

// learn what a CRD defines, and call the listeners with what changed, without the lock:
// they read Kinds.
func (k *Kinds) learn(o any) {
	d, ok := o.(*definition)
	if !ok {
		return
	}
	for _, i := range k.store(d) {
		for _, f := range k.onChange {
			f(i)
		}
	}
	k.defines(d)
}

// LearnCRD learns the kinds of a CRD that was read, but not how it defines their lists and defaults, and returns them.
func (k *Kinds) LearnCRD(crd *unstructured.Unstructured) []Info {
	d, infos := &definition{Meta: informer.MetaOf(crd)}, InfosOf(crd)
	for _, i := range infos {
		d.versions = append(d.versions, version{Info: i})
	}
	k.learn(d)
	return infos
}

// store a definition, and return the kinds that are new or have changed.
func (k *Kinds) store(d *definition) (changed []Info) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range d.versions {
		if k.byGVK[v.GVK].Info != v.Info {
			changed = append(changed, v.Info)
		}
		k.byGVK[v.GVK] = v
	}
	return changed
}

// forget the kinds of a deleted CRD.
func (k *Kinds) forget(o any) {
	if d, ok := informer.Last[*definition](o); ok {
		k.drop(d, nil)
	}
}

// drop the versions of an old definition that the new one does not have; nil if the CRD is gone.
func (k *Kinds) drop(old, new any) {
	d, ok := old.(*definition)
	if !ok {
		return
	}
	still, _ := new.(*definition) // nil: it is gone
	for _, gvk := range k.remove(d, still) {
		for _, f := range k.onGone {
			f(gvk)
		}
	}
	if still == nil {
		k.defines(d)
	}
}

// remove the kinds of a definition that are not in the one that replaces it, nil
// for none.
func (k *Kinds) remove(d, still *definition) (gone []schema.GroupVersionKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range d.versions {
		if still != nil && slices.ContainsFunc(still.versions, func(s version) bool { return s.GVK == v.GVK }) {
			continue
		}
		gone = append(gone, v.GVK)
		delete(k.byGVK, v.GVK)
		if still == nil {
			delete(k.legacy, v.GVK.GroupKind())
		}
	}
	return gone
}

// Get what is known of a kind: from its CRD, else from discovery.
func (k *Kinds) Get(gvk schema.GroupVersionKind) (Info, error) {
	i, ok := k.Defined(gvk)
	if ok {
		return i, nil
	}
	m, err := k.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return Info{}, fmt.Errorf("cannot find the resource of kind %s: %w", gvk, err)
	}
	i = Info{GVK: gvk, GVR: m.Resource, Namespaced: m.Scope.Name() == meta.RESTScopeNameNamespace, Storage: true, ScalePath: builtinScalePath}
	i.Resource = m.Resource.GroupResource().String()
	return i, nil
}

// Defined kinds are those of CRDs.
func (k *Kinds) Defined(gvk schema.GroupVersionKind) (Info, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	v, ok := k.byGVK[gvk]
	return v.Info, ok
}

// HasCRD reports whether a CRD serves a kind.
func (k *Kinds) HasCRD(gvk schema.GroupVersionKind) bool {
	_, ok := k.Defined(gvk)
	return ok
}

// OfResource returns the kind of a resource: of a CRD, else as discovery has it. It
// looks through all kinds, which is for rare questions only.
func (k *Kinds) OfResource(gvr schema.GroupVersionResource) (Info, error) {
	k.mu.RLock()
	for _, v := range k.byGVK {
		if v.GVR == gvr {
			k.mu.RUnlock()
			return v.Info, nil
		}
	}
	k.mu.RUnlock()
	gvk, err := k.Mapper.KindFor(gvr)
	if err != nil {
		return Info{}, fmt.Errorf("cannot find the kind of resource %s: %w", gvr, err)
	}
	return k.Get(gvk)
}

// Kind for decisions: only what a CRD defines, so that no decision waits for
// discovery.
func (k *Kinds) Kind(gvk schema.GroupVersionKind) identity.Kind {
	if k.Missing != nil {
		k.Missing(gvk)
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	kind := k.byGVK[gvk].Kind
	if k.legacy[gvk.GroupKind()] {
		kind.Runtime = mask.RuntimeLegacy
	}
	return kind
}

// Refuse a kind the sets of managementPolicies that only newer runtimes know: its provider does not know one.
// That is remembered for this process's life, or until
// the CRD is gone: a provider that is upgraded is served with sets that it
// accepts, too.
func (k *Kinds) Refuse(gvk schema.GroupVersionKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.legacy[gvk.GroupKind()] = true
}

// Lists of a kind, as its CRD defines them; nil where the items of all of them are
// identified by index.
func (k *Kinds) Lists(gvk schema.GroupVersionKind) change.Lists {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.byGVK[gvk].lists
}

// Defaults of a kind of managed resources, as its CRD defines them; nil for none.
func (k *Kinds) Defaults(gvk schema.GroupVersionKind) *change.Defaults {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.byGVK[gvk].defaults
}

// All kinds that CRDs define, in their stored version.
func (k *Kinds) All() []Info {
	k.mu.RLock()
	defer k.mu.RUnlock()
	out := make([]Info, 0, len(k.byGVK))
	for _, v := range k.byGVK {
		if v.Storage {
			out = append(out, v.Info)
		}
	}
	return out
}

// Where reads the kinds of the cluster that are to be kept, in their stored
// version.
func Where(ctx context.Context, client dynamic.Interface, keep func(Info) bool) ([]Info, error) {
	list, err := client.Resource(CRDs).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list the CRDs: %w", err)
	}
	var out []Info
	for i := range list.Items {
		for _, info := range InfosOf(&list.Items[i]) {
			if info.Storage && keep(info) {
				out = append(out, info)
			}
		}
	}
	return out, nil
}
