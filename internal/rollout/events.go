package rollout

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// event about a Rollout.
type event struct{ kind, reason, text string }

func normal(reason, format string, args ...any) event {
	return event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
}

func warning(reason, format string, args ...any) event {
	return event{corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...)}
}

// transitions from one status of a Rollout to the next, as events in their order (KR-14-58).
func transitions(before, now *v1alpha1.RolloutStatus) (out []event) {
	if now.Wave != before.Wave && now.Wave > 0 && int(now.Wave) <= len(now.Waves) {
		out = append(out, normal("WaveBegan", "Wave %d of %d begins: %d objects are let through.", now.Wave, len(now.Waves), now.Waves[now.Wave-1].Total))
	}
	if now.Phase == before.Phase {
		return out
	}
	switch now.Phase {
	case v1alpha1.RolloutInvalid:
		out = append(out, warning("RolloutInvalid", "Nothing passes: %s.", now.Message))
	case v1alpha1.RolloutPaused:
		out = append(out, normal("RolloutPaused", "It waits: %s.", now.Message))
	case v1alpha1.RolloutStopped:
		out = append(out, warning("RolloutStopped", "It stopped: %s.", now.Message))
	case v1alpha1.RolloutCompleted:
		out = append(out, normal("RolloutCompleted", "It is completed: %s.", now.Message))
	case v1alpha1.RolloutPending, v1alpha1.RolloutProgressing:
	}
	return out
}

// announce what a status that was written shows.
func (c *Controller) announce(o *object, before *v1alpha1.RolloutStatus) {
	about := &corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: o.kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}
	for _, e := range transitions(before, o.status) {
		c.Events.Eventf(about, nil, e.kind, e.reason, e.reason, "%s", e.text)
	}
}
