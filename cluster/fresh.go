package cluster

import (
	"context"
	"errors"
	"time"

	utilcache "k8s.io/apimachinery/pkg/util/cache"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
)

const (
	// freshFor is how long the result of a live read is used for an object whose watch is late.
	freshFor = 5 * time.Second
	// maxFresh bounds the objects of which one is kept.
	maxFresh = 10_000
)

// Fresh reads parents live while the heartbeat is late, each at most once in freshFor (KR-13-24). It is safe for concurrent use.
type Fresh struct {
	get   func(ctx context.Context, ref parent.Ref, live bool) (*Object, error)
	late  func() bool
	reads *utilcache.LRUExpireCache // of freshRead by parent.Ref, and of settings.Namespace by name
	// namespace as the watch has it, or live.
	namespace func(ctx context.Context, name string, live bool) (settings.Namespace, error)
}

// freshRead is an object, or that it does not exist.
type freshRead struct {
	o   *Object
	err error
}

// NewFresh returns a Fresh for a heartbeat.
func NewFresh(c *Cluster, h *Heartbeat) *Fresh {
	return &Fresh{get: c.States.Get, namespace: c.Namespaces.Get, late: h.Late, reads: utilcache.NewLRUExpireCache(maxFresh)}
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
		f.reads.Add(name, ns, freshFor)
	}
	return ns, err
}

// Get an object as States.Get does, but not from a watch that may be late.
func (f *Fresh) Get(ctx context.Context, ref parent.Ref, live bool) (*Object, error) {
	if live || !f.late() {
		return f.get(ctx, ref, live)
	}
	if r, ok := f.reads.Get(ref); ok {
		return r.(freshRead).o, r.(freshRead).err
	}
	o, err := f.get(ctx, ref, true)
	if err == nil || errors.Is(err, admission.ErrNotFound) {
		f.reads.Add(ref, freshRead{o, err}, freshFor)
	}
	return o, err
}
