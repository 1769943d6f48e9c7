package admission

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// policies of an MR in a request: what its author wants, apart from the mask
// that is stored, and the objects with the author's value restored, so that
// masking does not show up as a diff.
type policies struct {
	// stored and incoming values of spec.managementPolicies; nil for none.
	stored, incoming []string
	// before and author: the author's value before and after the request.
	before, author []string
	// remembered: the stored object remembers an author's value.
	remembered bool

	// old and new object, nil for none; their parts are those of the request.
	old, new map[string]any
	// fields to set on an object of an external system, by JSON pointer: the mask
	// that a write of the author's value would take away.
	fields map[string]any
}

// readPolicies of a request. Of the author's value after it there are several sources, of
// which the first holds: what an earlier call for the request remembered, what the
// function composes, what is stored while the mask is unchanged, the incoming value.
func readPolicies(req *Request, kind identity.Kind, manager string, closeTo []v1alpha1.Verb) policies {
	p := policies{old: content(req.OldObject), new: content(req.Object)}
	if !kind.ManagementPolicies {
		p.remask(req)
		return p
	}
	if req.OldObject != nil {
		p.stored = parent.PoliciesOf(req.OldObject)
		p.before, p.remembered = mask.ParseAuthor(identity.Annotation(req.OldObject, v1alpha1.AnnotationKeyManagementPolicies))
		if !p.remembered {
			p.before = p.stored
		}
	}
	if req.Object == nil {
		p.old = mask.WithPolicies(p.old, p.before)
		p.author = p.before
		return p
	}
	p.incoming = parent.PoliciesOf(req.Object)
	p.author = p.incoming
	again, reinvoked := req.MaskedAuthor(kind, closeTo, p.incoming)
	behind, composed := composedAuthor(req, manager, p)
	switch {
	case reinvoked:
		p.author = again
	case composed:
		p.author = behind
	case req.OldObject != nil && p.remembered && slices.Equal(p.incoming, p.stored):
		p.author = p.before
	case req.OldObject == nil:
		// A restored backup brings the author's value along with the mask.
		if a, ok := mask.ParseAuthor(identity.Annotation(req.Object, v1alpha1.AnnotationKeyManagementPolicies)); ok {
			p.author = a
		}
	}
	if req.OldObject != nil && slices.Equal(p.before, p.author) && slices.Equal(p.stored, p.incoming) {
		return p // no difference either way
	}
	p.old, p.new = mask.WithPolicies(p.old, p.before), mask.WithPolicies(p.new, p.author)
	return p
}

// composedAuthor is the author's managementPolicies behind the mask that the
// composition function composes (gate: Managed). The function masks from a managed
// resource that may be stale. If its record of the gate or of the author differs from
// the stored one, the field is the function's mask. Its author's value counts only if
// it also stamps a new hop; otherwise the stored one is kept (KR-08-16).
func composedAuthor(req *Request, manager string, p policies) ([]string, bool) {
	if req.OldObject == nil || identity.IsDeleting(req.Object) || !subject.IsComposedApply(manager) ||
		req.Keeps(v1alpha1.AnnotationKeyGate) && req.Keeps(v1alpha1.AnnotationKeyManagementPolicies) {
		return nil, false
	}
	author, ok := mask.ParseAuthor(identity.Annotation(req.Object, v1alpha1.AnnotationKeyManagementPolicies))
	if !ok || !mask.Masks(p.incoming, author) {
		return nil, false
	}
	if own := trace.Of(req.Object.GetAnnotations()).Own(); own != nil && own.Generation == req.NextGeneration() {
		return author, true
	}
	return p.before, true
}

// staleCreation refuses a composed creation that carries the gate of an object that
// is gone (KR-08-16). The composition function copied it, and the author's value,
// from a stale read of that object: what the Composition has by now is unknown.
func (ev *evaluation) staleCreation() (verdict, error) {
	if ev.req.Operation != Create || !ev.kind.ManagementPolicies || ev.mode != v1alpha1.ModeEnforce || !subject.IsComposedApply(ev.manager) {
		return verdict{}, nil
	}
	value := identity.Annotation(ev.req.Object, v1alpha1.AnnotationKeyGate)
	if value == "" {
		return verdict{}, nil
	}
	gate := mask.ParseGate(map[string]string{v1alpha1.AnnotationKeyGate: value})
	if gate.State == "" || gate.Reason == v1alpha1.GateReasonCreated && gate.Generation <= 1 {
		return verdict{}, nil
	}
	return ev.refuse(refusal{code: codeComposed, reason: ReasonStaleRead,
		why: "it was composed from a managed resource of that name that no longer exists", next: "Crossplane composes it again by itself."}), nil
}

// remask an object of an external system, so that a re-apply of the author's value
// does not show up as a diff.
func (p *policies) remask(req *Request) {
	if req.Object == nil || req.OldObject == nil || identity.IsDeleting(req.Object) {
		return
	}
	path := external.MaskPath(req.Object.GroupVersionKind().GroupKind())
	if masked, value, ok := external.Remask(path, req.OldObject.Object, p.new); ok {
		p.new, p.fields = masked, map[string]any{"/" + strings.Join(path, "/"): value}
	}
}

// content of an object; nil for none.
func content(o *unstructured.Unstructured) map[string]any {
	if o == nil {
		return nil
	}
	return o.Object
}
