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
// this very request: a later webhook changed the object, and we are asked again
// (reinvocationPolicy IfNeeded). Then the object holds our own edits, which must
// not be taken for its author's. nil otherwise; a copied or restored hop is an
// old one.
func reinvokedHop(req *Request) *v1alpha1.Hop {
	if sameAnnotation(req, v1alpha1.AnnotationKeyTrace) {
		return nil
	}
	return freshHop(req)
}

// freshHop is the object's own incoming hop where we wrote it into this very
// request, or into one before that was the same in all that a hop tells: by the
// same user, in the same seconds, for the same generation. For the same
// generation there are two where the mask hid what the first one changed.
func freshHop(req *Request) *v1alpha1.Hop {
	if req.Object == nil || req.Subresource != "" || annotation(req.Object, v1alpha1.AnnotationKeyTrace) == "" {
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
	return req.Object != nil && req.OldObject != nil && annotation(req.Object, key) == annotation(req.OldObject, key)
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
// stored one is ours where what we remember beside it does not: nobody else can
// have changed that and stayed what freshHop asks for, but the author, who
// might as well have written the policies themselves.
func reinvokedAuthor(req *Request, kind identity.Kind, closeTo []v1alpha1.Verb, incoming []string) ([]string, bool) {
	if req.OldObject == nil ||
		sameAnnotation(req, v1alpha1.AnnotationKeyTrace) && sameAnnotation(req, v1alpha1.AnnotationKeyManagementPolicies) && sameAnnotation(req, v1alpha1.AnnotationKeyGate) {
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
