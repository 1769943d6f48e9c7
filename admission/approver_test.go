package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Approver RBAC: who may decide about what controllers do (KR-02-13).
func TestApproverRBAC(t *testing.T) {
	cases := map[string]struct {
		reason  string
		mode    v1alpha1.Mode
		key     string
		value   string
		removed bool
		may     bool
		err     error
		allowed bool
		code    int32
		asked   bool
	}{
		"May":        {reason: "who has the verb may", key: v1alpha1.AnnotationKeyFreeze, value: "true", may: true, allowed: true, asked: true},
		"MayNot":     {reason: "who lacks it may not", key: v1alpha1.AnnotationKeyFreeze, value: "true", code: 403, asked: true},
		"Unfreeze":   {reason: "taking a freeze away is a decision too", key: v1alpha1.AnnotationKeyFreeze, value: "true", removed: true, code: 403, asked: true},
		"Label":      {reason: "a label of the trace is no decision", key: v1alpha1.AnnotationKeyTraceLabelPrefix + "ticket", value: "1", allowed: true},
		"Other":      {reason: "nor is anything that is not ours", key: "example.org/a", value: "1", allowed: true},
		"Unanswered": {reason: "the review fails", key: v1alpha1.AnnotationKeyFreeze, value: "true", err: errors.New("down"), code: 500, asked: true},
		"UnansweredLog": {reason: "what goes wrong inside us refuses nothing in log mode", mode: v1alpha1.ModeLog,
			key: v1alpha1.AnnotationKeyFreeze, value: "true", err: errors.New("down"), allowed: true, asked: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			asked := 0
			o := stubs{Options: enforced(), mayApprove: func(_ context.Context, u subject.User, ref parent.Ref) (bool, error) {
				asked++
				if u.Name != fx.Alice.Name || ref.Kind != "XDatabase" {
					t.Errorf("reviewed %s on %s", u.Name, ref.Kind)
				}
				return tc.may, tc.err
			}}
			if tc.mode != "" {
				o.DefaultMode = tc.mode
			}
			with1, without := fx.Composite(), fx.Composite()
			with1.SetAnnotations(map[string]string{tc.key: tc.value})
			without.SetAnnotations(nil)
			req := by(byCrossplane(Update, without), fx.Alice, "kubectl")
			req.OldObject, req.Object = without, with1
			if tc.removed {
				req.OldObject, req.Object = with1, without
			}
			d := decide(t, setting{}.world(), o, req)
			if d.Allowed != tc.allowed || d.Code != tc.code || (asked > 0) != tc.asked {
				t.Errorf("%s: allowed %v, code %d, %d reviews: %s", tc.reason, d.Allowed, d.Code, asked, d.Message)
			}
			if d.Code == 403 && !strings.Contains(d.Message, `verb "approve" on`) {
				t.Errorf("%s: the message lacks what is missing: %s", tc.reason, d.Message)
			}
		})
	}
}
