package policystore

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Validator is the admission handler that refuses policies with a path or an
// expression that does not compile, with its position (KR-05-54).
type Validator struct{}

// Handle one review. DELETE and subresources are always allowed.
func (Validator) Handle(_ context.Context, r ctrl.Request) ctrl.Response {
	if r.Operation == admissionv1.Delete || r.SubResource != "" {
		return ctrl.Allowed("")
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(r.Object.Raw); err != nil {
		return ctrl.Errored(http.StatusBadRequest, fmt.Errorf("cannot decode the policy: %w", err))
	}
	c, err := Compile(o)
	if err != nil {
		return ctrl.Errored(http.StatusBadRequest, err)
	}
	if len(c.Errors) == 0 {
		return ctrl.Allowed("")
	}
	causes := make([]metav1.StatusCause, 0, len(c.Errors))
	messages := make([]string, 0, len(c.Errors))
	for _, e := range c.Errors {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: e.Field, Message: e.Message})
		messages = append(messages, e.Error())
	}
	resp := ctrl.Denied("")
	resp.Result = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("%s %s does not compile: %s", o.GetKind(), o.GetName(), strings.Join(messages, "; ")),
		Details: &metav1.StatusDetails{Causes: causes}}
	return resp
}
