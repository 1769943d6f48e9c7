package apiserver

import (
	"context"
	"hash/maphash"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/decider"
)

const (
	// maxDecided requests are remembered at a time, decidedFor each.
	maxDecided = 4096
	decidedFor = time.Minute
)

// memory of the desired states that requests leave, from Admit to Validate of the same request. It is safe for concurrent use.
type memory struct {
	seed   maphash.Seed
	states *utilcache.LRUExpireCache // of uint64, by audit ID
}

func newMemory() memory {
	return memory{seed: maphash.MakeSeed(), states: utilcache.NewLRUExpireCache(maxDecided)}
}

// remember what a request leaves, as it was decided about.
func (m memory) remember(ctx context.Context, content map[string]any) {
	if id := audit.GetAuditIDTruncated(ctx); id != "" {
		m.states.Add(id, m.sum(change.Desired(content)), decidedFor)
	}
}

// changed reports whether the request leaves another desired state than what was decided about. What is not remembered is not.
func (m memory) changed(ctx context.Context, content map[string]any) bool {
	was, ok := m.states.Get(audit.GetAuditIDTruncated(ctx))
	return ok && was != m.sum(change.Desired(content))
}

// sum of a value, in which the order of fields has no part.
func (m memory) sum(v any) uint64 {
	switch t := v.(type) {
	case map[string]any:
		out := uint64(len(t))
		for k, e := range t {
			out += m.sum(k) * (m.sum(e) | 1)
		}
		return out
	case []any:
		out := uint64(len(t))
		for _, e := range t {
			out = out*prime + m.sum(e)
		}
		return out
	}
	if s, ok := v.(string); ok {
		return maphash.String(m.seed, s)
	}
	return maphash.Comparable(m.seed, v)
}

// prime by which the items of a list count by their places.
const prime = 1099511628211

// Validate validates policies, and decides again, without effects, about an object that a later plugin or webhook changed.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = p.panicked(ctx, a, r)
		}
	}()
	if a.GetResource().Group == v1alpha1.Group {
		return p.policy(ctx, a, o)
	}
	if a.GetSubresource() != whole || a.GetOperation() == admission.Delete || !p.covers(a) {
		return nil
	}
	if u, ok := a.GetObject().(*unstructured.Unstructured); ok && !p.kausality.decided.changed(ctx, u.Object) {
		return nil // almost all are
	}
	in, err := incoming(a, o)
	if err != nil {
		return p.undecided(ctx, &decider.UndecidedError{Mode: p.kausality.configuration.DefaultMode, Err: err})
	}
	if !p.kausality.decided.changed(ctx, in.Object.Object) {
		return nil
	}
	d, unready := p.kausality.deciderOf(ctx)
	if unready != nil {
		return p.unready(ctx, a, unready)
	}
	in.DryRun = true
	decision, undecided := d.Decide(ctx, in.Incoming)
	if undecided != nil {
		return p.undecided(ctx, undecided)
	}
	if decision.Allowed {
		return nil
	}
	return answered(ctx, a, in, decision)
}
