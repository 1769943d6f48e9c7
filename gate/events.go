package gate

import (
	"fmt"
	"strings"

	"github.com/kausality-io/function-kausality/admission/gating"

	corev1 "k8s.io/api/core/v1"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
	"github.com/kausality-io/function-kausality/drift"
	"github.com/kausality-io/function-kausality/gate/systems"
)

// Events are for kubectl describe: they tell the story of the gate in order. Each
// transition has one.

// event of a transition.
type event struct{ kind, reason, text string }

// tell what the gate controller did.
func (c *Controller) tell(o *cluster.Object, d gating.Decision) {
	c.count(o, d)
	c.emit(o, c.eventOf(o, d))
}

// count a transition: an opening that ends, and an approval that is used.
func (c *Controller) count(o *cluster.Object, d gating.Decision) {
	transitions.WithLabelValues(string(d.Action), d.Gate.Reason).Inc()
	if was := mask.ParseGate(o.Annotations); d.Action == gating.ActionClose && was.State == v1alpha1.GateOpen {
		closedAfter(was.At.Time, d.Gate.Reason)
	}
	if d.Once {
		drift.Approved(v1alpha1.RelationExternal)
	}
}

func (c *Controller) emit(o *cluster.Object, e event) {
	c.Events.Eventf(c.reference(o), nil, e.kind, e.reason, e.reason, "%s", e.text)
}

// blindAfter tells why external drift will be unknown under the policies of a
// decision.
func blindAfter(o *cluster.Object, d gating.Decision) gating.UnknownDrift {
	s := *o.State
	s.ManagementPolicies = d.Policies
	return gating.UnknownDriftOf(&s, o.Comparable, o.Gone)
}

func (c *Controller) eventOf(o *cluster.Object, d gating.Decision) event {
	switch {
	case d.Action == gating.ActionInstall:
		text := "The gate is closed from now on: external changes need a cause or an approval."
		if b := blindAfter(o, d); b != "" {
			text += " External drift is unknown: " + b.Why() + "."
		}
		return event{corev1.EventTypeNormal, "GateInstalled", text}
	case d.Action == gating.ActionRestore:
		return event{corev1.EventTypeNormal, "GateRemoved", "The author's managementPolicies are restored: nothing is gated any more."}
	case d.Gate.Reason == v1alpha1.GateReasonRefused:
		return event{corev1.EventTypeNormal, "GateAdjusted", fmt.Sprintf("The provider's runtime does not know the last set of managementPolicies; it is %v now.", d.Policies)}
	case d.Action == gating.ActionClose && d.Gate.Reason == v1alpha1.GateReasonExpired:
		return event{corev1.EventTypeWarning, "GateClosed", fmt.Sprintf("The gate is closed (%s): the provider did not confirm the change in time and may only observe the external resource. Whatever approved it is used up.", d.Gate.Reason)}
	case d.Action == gating.ActionClose:
		return event{corev1.EventTypeNormal, "GateClosed", fmt.Sprintf("The gate is closed (%s): the provider may only observe the external resource.", d.Gate.Reason)}
	case d.Gate.Reason != v1alpha1.GateReasonApproved:
		return event{corev1.EventTypeNormal, "GateNarrowed", fmt.Sprintf("The gate is open for %v alone now (%s).", d.Gate.Verbs, d.Gate.Reason)}
	}
	return event{corev1.EventTypeNormal, "GateOpened", fmt.Sprintf("The gate is open for %v, by approval (difference %s); it closes when the provider has confirmed it, at the latest in %s.", d.Gate.Verbs, d.Gate.Digest, c.Deadline)}
}

// admitted tells what the webhook did in the request that brought a change: it
// has no hands for events itself.
func (c *Controller) admitted(old, new *cluster.Object) {
	if !c.leading.Load() || new == nil || !c.ours(new.State.Ref) || new.Deleting() || systems.For(new.GroupVersionKind) != nil {
		return
	}
	key := v1alpha1.AnnotationKeyGate
	if old != nil && old.Annotations[key] == new.Annotations[key] || old == nil && new.Generation > 1 {
		return // nothing moved, or it did before we looked
	}
	if e, ok := c.eventOfAdmitted(mask.ParseGate(new.Annotations)); ok {
		c.emit(new, e)
	}
}

func (c *Controller) eventOfAdmitted(g v1alpha1.Gate) (event, bool) {
	if g.State != v1alpha1.GateOpen && g.Reason != v1alpha1.GateReasonPending {
		return event{}, false
	}
	switch g.Reason {
	case v1alpha1.GateReasonCreated:
		return event{corev1.EventTypeNormal, "GateOpened", fmt.Sprintf("The gate is open for %v, to create the external resource; it closes when that is Ready, at the latest in %s.", g.Verbs, c.Deadline)}, true
	case v1alpha1.GateReasonChanged:
		return event{corev1.EventTypeNormal, "GateOpened", fmt.Sprintf("The gate is open for %v, by an accepted change of %s; it closes when the provider has confirmed it, at the latest in %s. Annotation %s tells who caused it.",
			g.Verbs, or(strings.Join(g.Paths, ", "), "this resource"), c.Deadline, v1alpha1.AnnotationKeyTrace)}, true
	case v1alpha1.GateReasonPending:
		return event{corev1.EventTypeWarning, "GateHeld", "A change was accepted, but the external resource differs elsewhere too: the gate stays closed until both are approved, see kubectl get drifts."}, true
	}
	return event{}, false
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (c *Controller) reference(o *cluster.Object) *corev1.ObjectReference {
	apiVersion, kind := o.ToAPIVersionAndKind()
	return &corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: o.State.Namespace, Name: o.State.Name, UID: o.State.UID, ResourceVersion: o.ResourceVersion}
}
