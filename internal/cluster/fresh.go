package cluster

import (
	"context"
	"errors"
	"slices"

	utilcache "k8s.io/apimachinery/pkg/util/cache"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/internal/cluster/heartbeat"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// maxFresh bounds the objects of which a live read is kept.
const maxFresh = 10_000

// Fresh reads parents live while the heartbeat is late, each at most once in FreshFor (KR-13-24). It is safe for concurrent use.
type Fresh struct {
	get   func(ctx context.Context, ref parent.Ref, live bool) (*states.Object, error)
	late  func() bool
	reads *utilcache.LRUExpireCache // of freshRead by parent.Ref, and of settings.Namespace by name
	// namespace as the watch has it, or live.
	namespace func(ctx context.Context, name string, live bool) (settings.Namespace, error)
	// cluster with the policies and kinds that select the settings of objects.
	cluster *Cluster
}

// freshRead is an object, or that it does not exist.
type freshRead struct {
	o   *states.Object
	err error
}

// NewFresh returns a Fresh for a heartbeat.
func NewFresh(c *Cluster, h *heartbeat.Heartbeat) *Fresh {
	return &Fresh{get: c.States.Get, namespace: c.Namespaces.Get, late: h.Late, reads: utilcache.NewLRUExpireCache(maxFresh), cluster: c}
}

// Late reports whether the watches may not show what was stored some seconds ago.
func (f *Fresh) Late() bool { return f.late() }

// Settings of an object with these labels, by some policies, with its Namespace as it was last read live while the watches are late.
func (f *Fresh) Settings(of settings.Set, ref parent.Ref, labels map[string]string) settings.Settings {
	if len(of.Scopes()) == 0 {
		return settings.Settings{}
	}
	above := f.cluster.Namespaces.Labels(ref.Namespace)
	if f.late() {
		if ns, ok := f.reads.Get(ref.Namespace); ok {
			above = ns.(settings.Namespace).Labels
		}
	}
	return f.cluster.settings(of, ref, labels, above)
}

// CoverLive adds to what covers the holders the freezes of policies as they are stored, which the watch may not show (KR-13-74). Those that
// it shows stay: one of them may be later.
func CoverLive(ctx context.Context, c *Cluster, holders []identity.Holder) error {
	set, err := c.Policies.Live(ctx)
	if err != nil {
		return err
	}
	for i := range holders {
		h := &holders[i]
		stored := c.settings(set, h.State.Ref, h.State.Labels, h.Covering.Namespace.Labels).Freezes
		h.Covering.Policies = slices.Concat(h.Covering.Policies, stored)
	}
	return nil
}

// Namespace as Namespaces.Get returns it, but not from a watch that may be late.
func (f *Fresh) Namespace(ctx context.Context, name string, live bool) (settings.Namespace, error) {
	if live || !f.late() {
		return f.namespace(ctx, name, live)
	}
	if ns, ok := f.reads.Get(name); ok {
		return ns.(settings.Namespace), nil
	}
	ns, err := f.namespace(ctx, name, true)
	if err == nil {
		f.reads.Add(name, ns, informer.FreshFor)
	}
	return ns, err
}

// Get an object as States.Get does, but not from a watch that may be late.
func (f *Fresh) Get(ctx context.Context, ref parent.Ref, live bool) (*states.Object, error) {
	if live || !f.late() {
		return f.get(ctx, ref, live)
	}
	if r, ok := f.reads.Get(ref); ok {
		return r.(freshRead).o, r.(freshRead).err
	}
	o, err := f.get(ctx, ref, true)
	if err == nil || errors.Is(err, admission.ErrNotFound) {
		f.reads.Add(ref, freshRead{o, err}, informer.FreshFor)
	}
	return o, err
}
