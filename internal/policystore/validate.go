package policystore

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/clock"
)

// Validator is the admission handler that refuses policies with a path or an
// expression that does not compile, with its position (KR-05-54), or with a verb
// that can have no effect (KR-08-51), and warns of other parts that can have none (KR-06-26).
type Validator struct {
	// Kinds of the cluster; nil where they are not known.
	Kinds allowance.Kinds
	// Now is the time by which rules have expired; nil is the clock's.
	Now func() time.Time
}

// Handle one review. DELETE and subresources are always allowed.
func (v Validator) Handle(_ context.Context, r ctrl.Request) ctrl.Response {
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
	if len(c.Errors) > 0 {
		return invalid(o, "does not compile", c.Errors)
	}
	certain, possible := Ineffective(o)
	fresh, known := changed(certain, r.OldObject.Raw)
	if len(fresh) > 0 {
		return invalid(o, "has verbs without effect", fresh)
	}
	now := clock.Now
	if v.Now != nil {
		now = v.Now
	}
	return ctrl.Allowed("").WithWarnings(bounded(slices.Concat(known, possible, Unbound(o, v.Kinds, now())))...)
}

// changed splits errors into those that an update brings and those that the stored policy has
// as well: that one is in force, and another field of it can be changed.
func changed(errs []allowance.RuleError, stored []byte) (fresh, known []allowance.RuleError) {
	old := &unstructured.Unstructured{}
	if len(stored) == 0 || old.UnmarshalJSON(stored) != nil {
		return errs, nil
	}
	before, _ := Ineffective(old)
	for _, e := range errs {
		if slices.ContainsFunc(before, func(b allowance.RuleError) bool { return b.Message == e.Message }) {
			known = append(known, e)
		} else {
			fresh = append(fresh, e)
		}
	}
	return fresh, known
}

// texts of errors, as warnings.
func texts(errs []allowance.RuleError) []string {
	out := make([]string, 0, len(errs))
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return out
}

// invalid returns the refusal of a policy, with the errors and their places.
func invalid(o *unstructured.Unstructured, what string, errs []allowance.RuleError) ctrl.Response {
	causes := make([]metav1.StatusCause, 0, len(errs))
	for _, e := range errs {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: e.Field, Message: e.Message})
	}
	resp := ctrl.Denied("")
	resp.Result = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("%s %s %s: %s", o.GetKind(), o.GetName(), what, strings.Join(texts(errs), "; ")),
		Details: &metav1.StatusDetails{Causes: causes}}
	return resp
}
