package gate

import (
	"context"
	"sync"
	"time"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// byRef has a value for each of some objects. It is safe for concurrent use; the zero value is empty.
type byRef[V any] struct{ values sync.Map }

// of an object; the zero value for none.
func (m *byRef[V]) of(ref parent.Ref) V {
	v, _ := m.values.Load(ref)
	out, _ := v.(V)
	return out
}

func (m *byRef[V]) note(ref parent.Ref, v V) { m.values.Store(ref, v) }

func (m *byRef[V]) forget(ref parent.Ref) { m.values.Delete(ref) }

// reportRemaining announces the external drift of a managed resource that is not approved, or,
// in mode log, what mode enforce would hold. It returns when to reconcile the object again.
func (r *reporter) reportRemaining(ctx context.Context, o *states.Object, g gating.Managed, d gating.Decision) time.Duration {
	withheld, equal := g.Shadow(r.shadows.of(o.State.Ref))
	if equal == 0 {
		r.shadows.forget(o.State.Ref)
	} else {
		r.shadows.note(o.State.Ref, equal)
	}
	return r.announceRemaining(ctx, o, d, withheld)
}

// announceRemaining announces the external drift of a decision, or what is withheld by mode
// enforce alone; at most one of them is given.
func (r *reporter) announceRemaining(ctx context.Context, o *states.Object, d gating.Decision, withheld *v1alpha1.DriftSpec) time.Duration {
	var id string
	var e event
	switch {
	case d.Drift != nil:
		id, e = d.Drift.ID, eventOfDrift(*d.Drift, d.Lacks)
	case withheld != nil:
		id, e = withheld.ID, eventOfWithheld(*withheld)
		if r.remaining.of(o.State.Ref).id != id {
			wouldHold.WithLabelValues(o.Kind).Inc()
		}
	default:
		r.remaining.forget(o.State.Ref)
		return d.Again
	}
	again := r.remains(ctx, o, id, e)
	if d.Again > 0 {
		again = min(again, d.Again)
	}
	return again
}

// eventOfWithheld is the event of what mode enforce would hold while the mode is log
// (KR-08-55).
func eventOfWithheld(d v1alpha1.DriftSpec) event {
	return normal(reasonGateWouldHold, "In mode enforce the gate would keep the external resource as it is until this is approved: %s. In mode log nothing stops "+
		"a change of it. Derived from what the object and its status show.", clip(gating.ExplainDifference(d.Difference), maxEventDifference))
}
