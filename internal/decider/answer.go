package decider

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Refusal as a Status. The machine reason is in the cause always, and in the reason unless Crossplane must
// read Invalid there (KR-05-24).
func Refusal(d admission.Decision) *metav1.Status {
	reason := metav1.StatusReason(d.Reason)
	switch d.Code {
	case http.StatusUnprocessableEntity:
		reason = metav1.StatusReasonInvalid
	case http.StatusInternalServerError:
		reason = metav1.StatusReasonInternalError
	}
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: d.Code, Reason: reason, Message: d.Message,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseType(d.Reason), Message: d.Message}}},
	}
}

// Audit annotations (KR-07-07), by their names; the adapter adds a prefix.
func Audit(req *admission.Request, d admission.Decision) map[string]string {
	out := map[string]string{"decision": "allowed", "mode": string(d.Mode), "reason": string(d.Reason)}
	if !d.Allowed {
		out["decision"] = "denied"
	}
	put := func(k, v string) {
		if v != "" {
			out[k] = v
		}
	}
	put("class", string(d.Class))
	put("lifecycle-phase", string(d.Phase))
	put("drift-resolution", d.Resolution)
	if d.Exception != nil {
		put("policy", d.Exception.Policy)
	}
	if d.Held != nil {
		put("held", d.Held.Digest.ID())
	}
	if d.Class != outcome.ClassNone {
		out["drift"] = "false"
		if d.Class == outcome.ClassDrift {
			out["drift"] = "true"
			put("id", d.Digest.ID())
		}
	}
	switch {
	case d.Trace != nil:
		put("trace", d.Trace.String())
	case req.OldObject != nil:
		put("trace", req.OldObject.GetAnnotations()[v1alpha1.AnnotationKeyTrace])
	}
	return out
}
