package gate

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
	"github.com/kausality-io/function-kausality/internal/drift"
)

// Reasons of events, which users filter by; docs/reasons.md has when there is one. Each transition of a gate is one event, so that kubectl
// describe shows them in order.
const (
	reasonGateInstalled    = "GateInstalled"
	reasonGateOpened       = "GateOpened"
	reasonGateNarrowed     = "GateNarrowed"
	reasonGateClosed       = "GateClosed"
	reasonGateMasked       = "GateMasked"
	reasonGateAdjusted     = "GateAdjusted"
	reasonGateHeld         = "GateHeld"
	reasonGateRemoved      = "GateRemoved"
	reasonGateUnfit        = "GateUnfit"
	reasonGateWouldHold    = "GateWouldHold"
	reasonExternalDrift    = "ExternalDrift"
	reasonExternalOrphaned = "ExternalOrphaned"
	reasonApprovalUsed     = "ApprovalUsed"
	reasonDeletionRepeated = "DeletionRepeated"
)

// event of a transition.
type event struct{ kind, reason, text string }

func normal(reason, format string, args ...any) event {
	return event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
}

func warning(reason, format string, args ...any) event {
	return event{corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...)}
}

// emit an event about an object. The recorder sends it in the background and merges
// repetitions.
func (r *reporter) emit(o *states.Object, e event) {
	apiVersion, kind := o.ToAPIVersionAndKind()
	regarding := &corev1.ObjectReference{
		APIVersion: apiVersion, Kind: kind, Namespace: o.State.Namespace, Name: o.State.Name, UID: o.State.UID, ResourceVersion: o.ResourceVersion,
	}
	r.events.Eventf(regarding, nil, e.kind, e.reason, e.reason, "%s", e.text)
}

// announce a transition of a managed resource's gate that was written.
func (r *reporter) announce(o *states.Object, g gating.Managed, d gating.Decision) {
	if was := mask.ParseGate(o.Annotations); d.Action == gating.ActionOpen && sameTransition(was, d.Gate) {
		return // the provider has named what it creates
	}
	r.record(o, g, d)
	r.count(o, d)
	if d.Action != gating.ActionRecord {
		r.emit(o, eventOf(o, d, g.Deadline))
	}
	r.announceClaims(o, o.State, d.Edits)
}

// sameTransition reports whether two gates are the same but for the generation and for
// which external resource, and what of it, they record.
func sameTransition(a, b v1alpha1.Gate) bool {
	a.External, b.External = nil, nil
	a.Observed, b.Observed = nil, nil
	a.Generation, b.Generation = 0, 0
	return equality.Semantic.DeepEqual(a, b)
}

// count a transition in the metrics, with the opening that it ends and the
// approval that it uses.
func (r *reporter) count(o *states.Object, d gating.Decision) {
	transitions.WithLabelValues(string(d.Action), d.Gate.Reason).Inc()
	if was := mask.ParseGate(o.Annotations); d.Action == gating.ActionClose && was.State == v1alpha1.GateOpen {
		observeOpening(was.At.Time, d.Gate.Reason)
	}
	if d.Once {
		drift.Approved(v1alpha1.RelationExternal)
	}
}

// unknownAfter returns why external drift is unknown under the policies of a decision;
// "" if it is known.
func unknownAfter(o *states.Object, d gating.Decision) gating.UnknownDrift {
	s := *o.State
	s.ManagementPolicies = d.Policies
	return gating.UnknownDriftOf(&s, o.External)
}

// eventOf a transition of a managed resource. The reasons are a contract: users filter
// by them.
func eventOf(o *states.Object, d gating.Decision, deadline time.Duration) event {
	switch {
	case d.Action == gating.ActionInstall:
		e := normal(reasonGateInstalled, "The gate is closed from now on: external changes need a cause or an approval.")
		if b := unknownAfter(o, d); b != "" {
			e.text += " External drift is unknown: " + b.Why() + "."
		}
		return e
	case d.Action == gating.ActionRestore:
		return normal(reasonGateRemoved, "The author's managementPolicies are restored: external changes are not gated any more.")
	case d.Gate.Reason == v1alpha1.GateReasonRefused:
		return normal(reasonGateAdjusted, "The provider's runtime does not support the last set of managementPolicies; it is %v now.", d.Policies)
	case d.Action == gating.ActionClose:
		return closed(o, d)
	case d.Gate.Reason == v1alpha1.GateReasonChanged && mask.ParseGate(o.Annotations).State == v1alpha1.GateClosed:
		e, _ := eventOfAdmitted(d.Gate, deadline)
		return e
	case d.Gate.Reason != v1alpha1.GateReasonApproved:
		return normal(reasonGateNarrowed, "The gate is open only for %v now (%s).", d.Gate.Verbs, d.Gate.Reason)
	}
	return opened(d, deadline)
}

// closed returns the event of a closing.
func closed(o *states.Object, d gating.Decision) event {
	const text = "The gate is closed (%s): "
	switch {
	case d.Gate.Reason == v1alpha1.GateReasonExpired && o.External.Inert:
		return warning(reasonGateClosed, text+"the provider makes no change, although the external resource differs. "+
			"Its approval is used up.", d.Gate.Reason)
	case d.Gate.Reason == v1alpha1.GateReasonExpired:
		return warning(reasonGateClosed, text+"the provider did not confirm the change in time and may only observe the external resource. "+
			"Its approval is used up.", d.Gate.Reason)
	case d.Gate.Reason == v1alpha1.GateReasonFrozen:
		return normal(reasonGateClosed, text+"the provider may only observe the external resource while a freeze is in force. "+
			"Accepted changes are carried out when it ends.", d.Gate.Reason)
	}
	return normal(reasonGateClosed, text+"the provider may only observe the external resource.", d.Gate.Reason)
}

// opened returns the event of an opening by approval.
func opened(d gating.Decision, deadline time.Duration) event {
	destroys := ""
	if d.Gate.Destroys {
		destroys = " Its run may destroy what it manages, in part."
	}
	if d.Blind {
		return normal(reasonGateOpened, "The gate is open for %v, by approval, although the provider reports nothing that can be compared; it closes when "+
			"the provider has confirmed that generation, at the latest in %s.%s", d.Gate.Verbs, deadline, destroys)
	}
	return normal(reasonGateOpened, "The gate is open for %v, by approval (difference %s); it closes when the provider has confirmed the change, "+
		"at the latest in %s.%s", d.Gate.Verbs, d.Gate.Digest, deadline, destroys)
}

// eventOfForeign returns the event of a transition of an object that is not a managed
// resource.
func eventOfForeign(s systems.System, d gating.Decision, deadline time.Duration) event {
	switch d.Action {
	case gating.ActionOpen:
		return normal(reasonGateOpened, "The gate is open for %v (%s, difference %q); it closes when %s is done, at the latest in %s.",
			d.Gate.Verbs, d.Gate.Reason, d.Gate.Digest, s.Name(), deadline)
	case gating.ActionClose:
		e := normal(reasonGateClosed, "The gate is closed (%s).", d.Gate.Reason)
		if d.Gate.Reason == v1alpha1.GateReasonExpired || d.Gate.Reason == external.OverFailed {
			e.kind = corev1.EventTypeWarning
		}
		return e
	case gating.ActionInstall:
		return normal(reasonGateInstalled, "The gate is closed from now on: changes by %s need a cause or an approval.", s.Name())
	case gating.ActionMask:
		return normal(reasonGateMasked, "The gate is closed again: %s.", d.Why)
	}
	return normal(reasonGateRemoved, "The author's value is restored: changes by %s are not gated any more.", s.Name())
}

// eventOfAdmitted returns the event of a gate that the webhook opened or held; ok is false
// for other transitions, which the gate announces when it writes them.
func eventOfAdmitted(g v1alpha1.Gate, deadline time.Duration) (event, bool) {
	if g.State != v1alpha1.GateOpen && g.Reason != v1alpha1.GateReasonPending && g.Reason != v1alpha1.GateReasonPaused {
		return event{}, false
	}
	switch g.Reason {
	case v1alpha1.GateReasonCreated:
		return normal(reasonGateOpened, "The gate is open for %v, to create the external resource; it closes when that is Ready, at the latest in %s.",
			g.Verbs, deadline), true
	case v1alpha1.GateReasonChanged:
		return normal(reasonGateOpened, "The gate is open for %v, by an accepted change of %s; it closes when the provider has confirmed the "+
			"change, at the latest in %s. "+
			"Annotation %s identifies who caused it.", g.Verbs, cmp.Or(strings.Join(g.Paths, ", "), "this resource"), deadline, v1alpha1.AnnotationKeyTrace), true
	case v1alpha1.GateReasonPending:
		return warning(reasonGateHeld, "A change was accepted, but the external resource has other differences too: the gate stays closed until both are approved "+
			"or the others are gone, see kubectl get drifts."), true
	case v1alpha1.GateReasonPaused:
		return normal(reasonGateHeld, "A change was accepted while this resource is paused: the gate stays closed until it goes on, and its provider has observed "+
			"that nothing else differs."), true
	}
	return event{}, false
}

// orphaned emits the event of an MR that is deleted and whose external resource
// stays (KR-08-11).
func (r *reporter) orphaned(old, new *states.Object) {
	if old == nil || old.Deleting() || new != nil && !new.Deleting() {
		return
	}
	last := cmp.Or(new, old)
	why := gating.OrphanReason(last.State)
	if why == "" {
		return
	}
	r.emit(last, warning(reasonExternalOrphaned, "External resource %q was orphaned: %s.", last.ExternalName, why))
	orphans.Inc()
}
