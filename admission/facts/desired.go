package facts

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/carry"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Desired state of a request: of an MR, what its author wants, apart from the mask
// that is stored, and the objects with the author's value restored, so that
// masking does not show up as a diff.
type Desired struct {
	// Stored and incoming values of spec.managementPolicies; nil for none.
	Stored, Incoming []string
	// Before and author: the author's value before and after the request.
	Before, Author []string
	// Remembered: the stored object remembers an author's value.
	Remembered bool

	// Old and new object, nil for none; their parts are those of the request.
	Old, New map[string]any
	// Fields to set on an object of an external system, by JSON pointer: the mask
	// that a write of the author's value would take away.
	Fields map[string]any

	// Carry is the field that carries the cause to the outside; the zero Field for none. What it carries is in neither Old nor New.
	Carry carry.Field
}

// readDesired returns the desired state before and after a request, without the cause that it carries to the outside.
func readDesired(f *Facts) Desired {
	p := authored(f)
	is, was := carry.ForProvider(p.New), carry.ForProvider(p.Old)
	if p.Carry = carry.Of(f.Req.Kind.GroupKind(), is, was); p.Carry.Name != "" {
		p.Old, p.New = p.Carry.Strip(p.Old), p.Carry.Strip(p.New)
	}
	return p
}

// authored returns the desired state before and after a request. There are several sources for the
// author's value after it. The first of these that exists is used: what an earlier call for the request
// remembered, what the function composes, what is stored while the mask is unchanged, the incoming
// value.
func authored(f *Facts) Desired {
	req := f.Req
	p := Desired{Old: content(req.OldObject), New: content(req.Object)}
	if !f.Kind.ManagementPolicies {
		p.remask(req)
		return p
	}
	if req.OldObject != nil {
		p.Stored = parent.PoliciesOf(req.OldObject)
		p.Before, p.Remembered = mask.ParseAuthor(identity.Annotation(req.OldObject, v1alpha1.AnnotationKeyManagementPolicies))
		if !p.Remembered {
			p.Before = p.Stored
		}
	}
	if req.Object == nil {
		p.Old = mask.WithPolicies(p.Old, p.Before)
		p.Author = p.Before
		return p
	}
	p.Incoming = parent.PoliciesOf(req.Object)
	p.Author = p.Incoming
	marked, found := markedAuthor(f, p)
	switch {
	case found:
		p.Author = marked
	case req.OldObject != nil && p.Remembered && slices.Equal(p.Incoming, p.Stored):
		p.Author = p.Before
	case req.OldObject == nil:
		// A restored backup brings the author's value along with the mask.
		if a, ok := mask.ParseAuthor(identity.Annotation(req.Object, v1alpha1.AnnotationKeyManagementPolicies)); ok {
			p.Author = a
		}
	}
	if req.OldObject != nil && slices.Equal(p.Before, p.Author) && slices.Equal(p.Stored, p.Incoming) {
		return p // no difference either way
	}
	p.Old, p.New = mask.WithPolicies(p.Old, p.Before), mask.WithPolicies(p.New, p.Author)
	return p
}

// markedAuthor returns the author's managementPolicies behind a mask that the annotations of the incoming object mark, and the stored ones do
// not: that of an earlier call for the request, or of the composition function.
func markedAuthor(f *Facts, p Desired) ([]string, bool) {
	if f.KeepsAnnotations {
		return nil, false
	}
	if author, reinvoked := f.Req.MaskedAuthor(f.Kind, f.CloseTo(), p.Incoming); reinvoked {
		return author, true
	}
	return composedAuthor(f.Req, f.Manager, p)
}

// composedAuthor returns the author's managementPolicies behind the mask that the composition function
// composes (gate: Managed). The function masks from a managed resource that may be stale. If its
// record of the gate or of the author differs from the stored one, the field is the function's mask.
// Its author's value counts only if it also stamps a new hop; otherwise the stored one is kept
// (KR-08-16).
func composedAuthor(req *request.Request, manager string, p Desired) ([]string, bool) {
	if req.OldObject == nil || identity.IsDeleting(req.Object) || !subject.IsComposedApply(manager) ||
		req.Keeps(v1alpha1.AnnotationKeyGate) && req.Keeps(v1alpha1.AnnotationKeyManagementPolicies) {
		return nil, false
	}
	author, ok := mask.ParseAuthor(identity.Annotation(req.Object, v1alpha1.AnnotationKeyManagementPolicies))
	if !ok || !mask.Masks(p.Incoming, author) {
		return nil, false
	}
	if own := trace.Of(req.Object.GetAnnotations()).Own(); own != nil && own.Generation == req.NextGeneration() {
		return author, true
	}
	return p.Before, true
}

// remask masks an object of an external system again, so that a re-apply of the author's value does not
// show up as a diff.
func (p *Desired) remask(req *request.Request) {
	if req.Object == nil || req.OldObject == nil || identity.IsDeleting(req.Object) {
		return
	}
	path := external.MaskPath(req.Object.GroupVersionKind().GroupKind())
	if masked, value, ok := external.Remask(path, req.OldObject.Object, p.New); ok {
		p.New, p.Fields = masked, map[string]any{"/" + strings.Join(path, "/"): value}
	}
}

// content returns the content of an object; nil for a nil object.
func content(o *unstructured.Unstructured) map[string]any {
	if o == nil {
		return nil
	}
	return o.Object
}

// DeletionPolicy returns spec.deletionPolicy in the content of an object; "" where it is not set.
func DeletionPolicy(content map[string]any) string {
	spec, _ := content["spec"].(map[string]any)
	value, _ := spec["deletionPolicy"].(string)
	return value
}
