package admission

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// policies of an MR in a request: what its author wants, apart from the mask
// that is stored, and the objects with the author's value put back, so that the
// mask is no change in anybody's eyes.
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

func readPolicies(req *Request, kind identity.Kind, manager string, closeTo []v1alpha1.Verb) policies {
	p := policies{old: content(req.OldObject), new: content(req.Object)}
	if !kind.ManagementPolicies {
		p.remask(req)
		return p
	}
	if req.OldObject != nil {
		p.stored = mask.PoliciesOf(req.OldObject)
		p.before, p.remembered = mask.ParseAuthor(annotation(req.OldObject, v1alpha1.AnnotationKeyManagementPolicies))
		if !p.remembered {
			p.before = p.stored
		}
	}
	if req.Object == nil {
		p.old = withPolicies(p.old, p.before)
		p.author = p.before
		return p
	}
	p.incoming = mask.PoliciesOf(req.Object)
	p.author = p.incoming
	again, reinvoked := reinvokedAuthor(req, kind, closeTo, p.incoming)
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
		if a, ok := mask.ParseAuthor(annotation(req.Object, v1alpha1.AnnotationKeyManagementPolicies)); ok {
			p.author = a
		}
	}
	if req.OldObject != nil && slices.Equal(p.before, p.author) && slices.Equal(p.stored, p.incoming) {
		return p // no difference either way
	}
	p.old, p.new = withPolicies(p.old, p.before), withPolicies(p.new, p.author)
	return p
}

// composedAuthor is the author's managementPolicies behind the mask that the
// composition function composes (gate: Managed). What it composes was worked out on
// an MR that may have moved on since: its record of the gate or of the author, another
// than the stored one, tells its mask from what an author writes. What it says of the
// author counts where it announces a change, by the hop that it stamps; else it
// repeats what it saw.
func composedAuthor(req *Request, manager string, p policies) ([]string, bool) {
	if req.OldObject == nil || isDeleting(req.Object) || !subject.IsComposedApply(manager) ||
		sameAnnotation(req, v1alpha1.AnnotationKeyGate) && sameAnnotation(req, v1alpha1.AnnotationKeyManagementPolicies) {
		return nil, false
	}
	author, ok := mask.ParseAuthor(annotation(req.Object, v1alpha1.AnnotationKeyManagementPolicies))
	if !ok || !mask.Masks(p.incoming, author) {
		return nil, false
	}
	if own := trace.Of(req.Object.GetAnnotations()).Own(); own != nil && own.Generation == req.nextGeneration() {
		return author, true
	}
	return p.before, true
}

// remask an object of an external system, so that the author's value written
// again is no change in anybody's eyes.
func (p *policies) remask(req *Request) {
	if req.Object == nil || req.OldObject == nil || isDeleting(req.Object) {
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

// withPolicies is an object with other policies; nil leaves them.
func withPolicies(object map[string]any, policies []string) map[string]any {
	spec, ok := object["spec"].(map[string]any)
	if !ok || policies == nil {
		return object
	}
	if have, ok := spec[mask.FieldManagementPolicies].([]any); ok && slices.EqualFunc(have, policies, func(a any, b string) bool { return a == b }) {
		return object
	}
	spec = maps.Clone(spec)
	list := make([]any, 0, len(policies))
	for _, p := range policies {
		list = append(list, p)
	}
	spec[mask.FieldManagementPolicies] = list
	out := maps.Clone(object)
	out["spec"] = spec
	return out
}
