package gating

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestExpired covers KR-08-09: an opening is over when no time is left until its deadline, for gate and audit alike, and Delete has a deadline
// of its own.
func TestExpired(t *testing.T) {
	at := func(ago time.Duration) metav1.Time { return metav1.NewTime(fx.Noon.Add(-ago)) }
	old, young := at(2*time.Hour), at(time.Minute)
	cases := map[string]struct {
		gate v1alpha1.Gate
		want bool
	}{
		"Left":           {gate: v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{fx.Update}, At: at(time.Hour - time.Second)}},
		"NoneLeft":       {gate: v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{fx.Update}, At: at(time.Hour)}, want: true},
		"Closed":         {gate: v1alpha1.Gate{State: v1alpha1.GateClosed, Verbs: []v1alpha1.Verb{fx.Update}, At: old}},
		"Delete":         {gate: v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{fx.Delete}, At: old, DeleteAt: &young}},
		"DeleteOld":      {gate: v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{fx.Delete}, At: old}, want: true},
		"Both":           {gate: v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{fx.Update, fx.Delete}, At: old, DeleteAt: &young}, want: true},
		"DeleteLeft":     {gate: v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{fx.Delete}, At: at(time.Hour - time.Second)}},
		"DeleteNoneLeft": {gate: v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{fx.Delete}, At: at(time.Hour)}, want: true},
		"BothYoung":      {gate: v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{fx.Update, fx.Delete}, At: young, DeleteAt: &young}},
	}
	g := Managed{Deadline: time.Hour, Now: fx.Noon}
	for name, tc := range cases {
		assert.Equal(t, tc.want, g.Expired(tc.gate), name)
	}
	both := v1alpha1.Gate{Verbs: []v1alpha1.Verb{fx.Update, fx.Delete}, At: old, DeleteAt: &young}
	assert.Equal(t, young.Add(time.Hour), LastEndOf(both, time.Hour), "what it is open for longest")
	assert.Equal(t, old.Add(time.Hour), LastEndOf(v1alpha1.Gate{Verbs: []v1alpha1.Verb{fx.Update}, At: old}, time.Hour))
	policy, flag := settings.Settings{}, Defaults{Deadline: time.Minute}
	policy.Deadline = time.Second
	assert.Equal(t, []time.Duration{time.Second, time.Minute, DefaultDeadline},
		[]time.Duration{DeadlineOf(policy, flag), DeadlineOf(settings.Settings{}, flag), DeadlineOf(settings.Settings{}, Defaults{})})
}
