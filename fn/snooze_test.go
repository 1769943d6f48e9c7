package fn

import (
	"strings"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A snooze suppresses the events until it expires, and nothing else: what is held
// stays held, and the condition reports it (KR-09-06).
func TestSnooze(t *testing.T) {
	cases := map[string]struct {
		input  string
		reason string
		shown  string
	}{
		"Enforce": {input: enforce, reason: v1alpha1.ConditionReasonHeld, shown: "spec.value"},
		"Log":     {input: `{"settleGrace":"10s"}`, reason: v1alpha1.ConditionReasonAllowed, shown: "spec.value"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, want := settledStage(t)
			s.input = tc.input
			reported := func() bool {
				for _, r := range s.rsp.GetResults() {
					if strings.Contains(r.GetMessage(), tc.shown) {
						return true
					}
				}
				return false
			}
			s.annotate(v1alpha1.AnnotationKeySnooze, `{"expiry":"`+s.now.Add(time.Hour).Format(time.RFC3339)+`","user":"hans"}`)
			want["b"] = plain("y")
			s.reconcile(want)
			s.wantReason(tc.reason)
			if _, _, message := s.condition(); reported() || !strings.Contains(message, tc.shown) {
				t.Errorf("snoozed: results %v, condition %s", s.rsp.GetResults(), message)
			}
			if tc.input != enforce {
				return // the change has passed
			}
			s.now = s.now.Add(2 * time.Hour)
			s.reconcile(want)
			s.wantReason(tc.reason)
			if !reported() {
				t.Errorf("after the snooze: %v", s.rsp.GetResults())
			}
		})
	}
}
