package admission

import (
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// reinvocationWindow is how long after its first decision a request is decided
// again; the API server gives a webhook at most 30 s.
const reinvocationWindow = 30 * time.Second

// reinvokedHop returns the object's own incoming hop where we wrote it into
// this very request: a later webhook changed the object, and the API server calls again
// (reinvocationPolicy IfNeeded, KR-05-25). Then the object holds our own edits, which must
// not be taken for its author's. nil otherwise; a copied or restored hop is an
// old one.
func reinvokedHop(req *Request) *v1alpha1.Hop {
	if sameAnnotation(req, v1alpha1.AnnotationKeyTrace) {
		return nil
	}
	return freshHop(req)
}

// freshHop returns the object's own hop if this request, or an identical retry (same
// user, same generation, within reinvocationWindow), wrote it; nil otherwise. Two such
// requests can share a generation when the mask hid the first change.
func freshHop(req *Request) *v1alpha1.Hop {
	if req.Object == nil || req.Subresource != "" || identity.Annotation(req.Object, v1alpha1.AnnotationKeyTrace) == "" {
		return nil
	}
	own := trace.Of(req.Object.GetAnnotations()).Own()
	if own == nil || own.Kind != req.Kind.Kind || own.User != req.User.Name || own.Generation != req.nextGeneration() ||
		req.Time.Sub(own.Timestamp.Time).Abs() > reinvocationWindow {
		return nil
	}
	return own
}

// sameAnnotation reports whether an annotation comes as it is stored.
func sameAnnotation(req *Request, key string) bool {
	return req.Object != nil && req.OldObject != nil && identity.Annotation(req.Object, key) == identity.Annotation(req.OldObject, key)
}

// reinvokedClaim is the id of the claim that this very request took.
func reinvokedClaim(req *Request) string {
	if hop := reinvokedHop(req); hop != nil && hop.Approval != nil {
		return hop.Approval.Claim
	}
	return ""
}

// reinvokedAuthor is the author's managementPolicies where the incoming ones are
// the mask that we put over them in this very request. A hop that looks like the
// stored one is ours where what we remember beside it does not: only the author
// can have changed that within what freshHop requires, and the author may write the
// policies anyway.
func reinvokedAuthor(req *Request, kind identity.Kind, closeTo []v1alpha1.Verb, incoming []string) ([]string, bool) {
	if req.OldObject == nil ||
		sameAnnotation(req, v1alpha1.AnnotationKeyTrace) && sameAnnotation(req, v1alpha1.AnnotationKeyManagementPolicies) &&
			sameAnnotation(req, v1alpha1.AnnotationKeyGate) {
		return nil, false
	}
	if freshHop(req) == nil {
		return nil, false
	}
	annotations := req.Object.GetAnnotations()
	author, ok := mask.ParseAuthor(annotations[v1alpha1.AnnotationKeyManagementPolicies])
	if !ok || !slices.Equal(incoming, gating.MaskedPolicies(author, mask.ParseGate(annotations), closeTo, kind)) {
		return nil, false
	}
	return author, true
}
