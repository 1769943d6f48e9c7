package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

const (
	// renewEvery is how often the event of a difference that remains is renewed. An API
	// server keeps events for an hour by default.
	renewEvery = 45 * time.Minute
	// retryEvery is how often an event is tried that could not be written.
	retryEvery = time.Minute
	// maxEventDifference bounds the difference in an event, in bytes; the API server bounds
	// the whole note to 1 KiB.
	maxEventDifference = 400
	maxEventNote       = 1023
)

// remainingEvent is the last event about a difference that remains.
type remainingEvent struct {
	// id of the difference.
	id string
	// written is when the event was written or renewed last, count how often.
	written time.Time
	count   int32
}

// remains announces a difference of an object's external resource that remains: one event for
// each difference, which is renewed while the difference does, and which a restarted process
// finds by its name (KR-08-53). An event that cannot be written is logged, and written with the
// next reconcile. It returns when to reconcile the object again.
func (r *reporter) remains(ctx context.Context, o *states.Object, id string, e event) time.Duration {
	ref, now := o.State.Ref, clock.Now()
	last := r.remaining.of(ref)
	if last.id != id {
		last = remainingEvent{id: id}
	}
	if now.Sub(last.written) >= renewEvery {
		if err := r.writeRemaining(ctx, newRemainingEvent(o, id, e, now), last.count); err != nil {
			r.log.Error(err, "cannot write an event", "kind", ref.Kind, "namespace", ref.Namespace, "name", ref.Name)
			return retryEvery
		}
		r.remaining.note(ref, remainingEvent{id: id, written: now, count: last.count + 1})
	}
	return renewEvery
}

// newRemainingEvent about an object. The id of the difference is in its name.
func newRemainingEvent(o *states.Object, id string, e event, now time.Time) *eventsv1.Event {
	apiVersion, kind := o.ToAPIVersionAndKind()
	namespace := cmp.Or(o.State.Namespace, metav1.NamespaceDefault) // the latter of events about cluster-scoped objects
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%s.%s", prefix(o.State.Name), strings.ToLower(e.reason), id)},
		EventTime:  metav1.NewMicroTime(now), Type: e.kind, Reason: e.reason, Action: e.reason, Note: clip(e.text, maxEventNote),
		ReportingController: v1alpha1.ManagerGate, ReportingInstance: v1alpha1.ManagerGate,
		Regarding: corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: o.State.Namespace, Name: o.State.Name, UID: o.State.UID},
	}
}

// prefix of an event's name, which is at most 253 characters long.
func prefix(name string) string { return strings.TrimRight(name[:min(len(name), 180)], "-.") }

// writeRemaining creates an event, or renews the one that this process wrote count times. One
// of an earlier process is left as it is.
func (r *reporter) writeRemaining(ctx context.Context, e *eventsv1.Event, count int32) error {
	if count > 0 {
		raw, err := json.Marshal(map[string]any{"series": eventsv1.EventSeries{Count: count + 1, LastObservedTime: e.EventTime}})
		if err != nil {
			return fmt.Errorf("cannot encode a series: %w", err)
		}
		err = r.drifts.Patch(ctx, e.DeepCopy(), client.RawPatch(types.MergePatchType, raw))
		if !kerrors.IsNotFound(err) {
			return err
		}
	}
	if err := r.drifts.Create(ctx, e); !kerrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// clip a text to a length in bytes, at a character.
func clip(text string, length int) string {
	if len(text) <= length {
		return text
	}
	return strings.ToValidUTF8(text[:length-len("…")], "") + "…"
}

// eventOfDrift returns the event of external drift that is not approved.
func eventOfDrift(d v1alpha1.DriftSpec, lacks string) event {
	e := warning(reasonExternalDrift, "The external resource differs: %s.", clip(gating.ExplainDifference(d.Difference), maxEventDifference))
	if d.SuggestedApproval == "" {
		e.text += " The gate keeps it as it is."
		return e
	}
	e.text += " The gate keeps it as it is until that is approved, or reverted outside. To have the provider revert it: " + d.SuggestedApproval
	if lacks != "" { // of the last event that was written: votes make none
		e.text += " ; " + lacks
	}
	return e
}

// announceClaims emits the event of once approvals that a write to their holder uses up
// (KR-08-54).
func (r *reporter) announceClaims(o *states.Object, holder *parent.State, edits map[string]*string) {
	value := edits[v1alpha1.AnnotationKeyClaims]
	if value == nil {
		return
	}
	before := approval.ParseClaims(holder.Annotations[v1alpha1.AnnotationKeyClaims])
	for _, a := range approval.ParseClaims(*value) {
		was := slices.ContainsFunc(before, func(b v1alpha1.Claim) bool { return b.Content == a.Content && b.ID == a.ID && b.Spent() })
		if a.State == v1alpha1.ClaimUsed && !was {
			r.emit(o, normal(reasonApprovalUsed, "The once approval on %s is used up: another difference needs another approval.", identity.Describe(holder.Ref)))
		}
	}
}

// byRef has a value for each of some objects. It is safe for concurrent use; the zero value is empty.
type byRef[V any] struct{ values sync.Map }

// of returns the value of an object; the zero value for none.
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

// eventOfWithheld returns the event of what mode enforce would hold while the mode is log
// (KR-08-55).
func eventOfWithheld(d v1alpha1.DriftSpec) event {
	return normal(reasonGateWouldHold, "In mode enforce the gate would keep the external resource as it is until this is approved: %s. In mode log nothing stops "+
		"a change of it. Derived from what the object and its status show.", clip(gating.ExplainDifference(d.Difference), maxEventDifference))
}
