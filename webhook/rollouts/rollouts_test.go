package rollouts

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestDryRunHasNoSeal covers KR-13-69: no answer has a seal whose claims are not stored.
func TestDryRunHasNoSeal(t *testing.T) {
	h := Handler{Claims: &approval.Keys{}}
	h.Claims.Use([]byte(strings.Repeat("k", 32)))
	for name, dry := range map[string]*bool{"Unset": nil, "Stored": new(false), "DryRun": new(true)} {
		value := `[{"content":"c","state":"open","at":"2026-01-01T00:00:00Z"}]`
		edits := h.edits(ctrl.Request{AdmissionRequest: admissionv1.AdmissionRequest{Name: "r", DryRun: dry}}, "1",
			map[string]*string{v1alpha1.AnnotationKeyClaims: &value})
		if sealed := strings.Contains(*edits[v1alpha1.AnnotationKeyClaims], `"state":"seal"`); sealed != (name != "DryRun") {
			t.Errorf("%s: sealed: %t", name, sealed)
		}
	}
}
