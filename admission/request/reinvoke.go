package request

import (
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// reinvocationWindow is how long after its first decision a request is decided
// again; the API server gives a webhook at most 30 s.
const reinvocationWindow = 30 * time.Second

// Reinvoked returns the object's own incoming hop if an earlier call for this request wrote it: a
// later webhook changed the object, and the API server calls again (reinvocationPolicy IfNeeded,
// KR-05-25). Then the object holds the edits of Kausality, which must not be taken for its author's.
// It returns nil otherwise; a copied or restored hop is an old one.
func (r *Request) Reinvoked() *v1alpha1.Hop {
	if r.Keeps(v1alpha1.AnnotationKeyTrace) {
		return nil
	}
	return r.freshHop()
}

// freshHop returns the object's own hop if this request, or an identical retry (same
// user, same generation, within reinvocationWindow), wrote it; nil otherwise. Two such
// requests can share a generation when the mask hid the first change.
func (r *Request) freshHop() *v1alpha1.Hop {
	if r.Object == nil || r.Subresource != "" || identity.Annotation(r.Object, v1alpha1.AnnotationKeyTrace) == "" {
		return nil
	}
	own := trace.Of(r.Object.GetAnnotations()).Own()
	if own == nil || own.Kind != r.Kind.Kind || own.User != r.User.Name || own.Generation != r.NextGeneration() && !r.keepsGeneration(own.Generation) ||
		r.Time.Sub(own.Timestamp.Time).Abs() > reinvocationWindow {
		return nil
	}
	return own
}

// keepsGeneration reports whether a hop of a generation may be of this request: a change
// of the external name alone leaves the generation (KR-13-17).
func (r *Request) keepsGeneration(g int64) bool {
	return r.OldObject != nil && g == r.OldObject.GetGeneration() && parent.ExternalOf(r.OldObject) != parent.ExternalOf(r.Object)
}

// Keeps reports whether the request leaves an annotation as it is stored.
func (r *Request) Keeps(key string) bool {
	return r.Object != nil && r.OldObject != nil && identity.Annotation(r.Object, key) == identity.Annotation(r.OldObject, key)
}

// Claim returns the id of the claim that an earlier call for this request took; empty for none.
func (r *Request) Claim() string {
	if hop := r.Reinvoked(); hop != nil && hop.Approval != nil {
		return hop.Approval.Claim
	}
	return ""
}

// MaskedAuthor returns the author's managementPolicies if the incoming ones are the mask that an
// earlier call for this request put over them. A hop that equals the stored one was written by
// Kausality if the author's value or the gate beside it does not: only the author can have changed
// that within what freshHop requires, and the author may write the policies anyway.
func (r *Request) MaskedAuthor(kind identity.Kind, closeTo []v1alpha1.Verb, incoming []string) ([]string, bool) {
	if r.OldObject == nil ||
		r.Keeps(v1alpha1.AnnotationKeyTrace) && r.Keeps(v1alpha1.AnnotationKeyManagementPolicies) &&
			r.Keeps(v1alpha1.AnnotationKeyGate) {
		return nil, false
	}
	if r.freshHop() == nil {
		return nil, false
	}
	annotations := r.Object.GetAnnotations()
	author, ok := mask.ParseAuthor(annotations[v1alpha1.AnnotationKeyManagementPolicies])
	if !ok || !slices.Equal(incoming, gating.MaskedPolicies(author, mask.ParseGate(annotations), closeTo, kind)) {
		return nil, false
	}
	return author, true
}
