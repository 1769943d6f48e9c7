package facts

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// MixedCauses returns how a change is decided if a part of it was held before (KR-05-62 to KR-05-64).
func (f *Facts) MixedCauses() v1alpha1.MixedCauses {
	switch {
	case f.Req.Actor != request.ActorUnknown:
		return v1alpha1.MixedCausesHold
	case f.Stale: // Crossplane composes it again
		return v1alpha1.MixedCausesRefuse
	case f.Settings.MixedCauses != "":
		return f.Settings.MixedCauses
	case subject.IsComposedApply(f.Manager), byKro(f):
		return v1alpha1.MixedCausesHold
	}
	return v1alpha1.MixedCausesRefuse
}

// byKro reports whether the write is an apply by kro to a child whose stored labels name its instance.
func byKro(f *Facts) bool {
	if !f.Member || f.Manager != subject.ManagerApplySet || f.Req.Operation != request.Update {
		return false
	}
	ref, ok := parent.Of(f.Req.OldObject, f.Kind.Role)
	return ok && ref == f.ParentRef
}

// PutsBack reports whether an update that is refused as drift passes with all that is stored: by kro, which would repeat a refused pass
// for ever, unless the policy refuses (KR-18-06).
func (f *Facts) PutsBack() bool {
	return f.Options.Separates && f.Req.Subresource == "" && f.Req.Actor == request.ActorUnknown &&
		byKro(f) && f.MixedCauses() != v1alpha1.MixedCausesRefuse
}

// Separates reports whether the write can pass without what was held before. A change
// through /scale cannot: it is one field.
func (f *Facts) Separates() bool {
	return f.Options.Separates && f.Req.Subresource == "" && f.MixedCauses() == v1alpha1.MixedCausesHold
}

// Without returns the facts of the update with some paths as stored.
func (f *Facts) Without(ctx context.Context, paths func(path string) bool) (*Facts, error) {
	req := *f.Req
	req.Object = &unstructured.Unstructured{Object: f.keeping(paths)}
	part, err := Collect(ctx, f.World, f.Options, f.Policies, &req)
	if err != nil {
		return nil, err
	}
	part.Stale = f.Stale
	return part, nil
}

// keeping returns the content of the object with some paths as stored.
func (f *Facts) keeping(keep func(path string) bool) map[string]any {
	c, old, object := f.comparison(), f.Req.OldObject, f.Req.Object
	out := c.Part(old.Object, object.Object, func(l change.Leaf) bool { return keep(l.Path) })
	if f.Retarget && keep(PathExternalName) {
		u := &unstructured.Unstructured{Object: out}
		metadata, _ := u.Object["metadata"].(map[string]any)
		u.Object["metadata"] = maps.Clone(metadata)
		annotations := maps.Clone(u.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		if name, ok := old.GetAnnotations()[v1alpha1.AnnotationKeyExternalName]; ok {
			annotations[v1alpha1.AnnotationKeyExternalName] = name
		} else {
			delete(annotations, v1alpha1.AnnotationKeyExternalName)
		}
		u.SetAnnotations(annotations)
	}
	return out
}

// Outdated reports whether the composition function applies a value from before one that is stored by now, and records the stored one as
// held: it read the object before that was written (KR-05-70).
func Outdated(f *Facts) bool {
	h := recorded(f.Req, f.Manager, f.Req.Object)
	return h != nil && !h.Whole && slices.ContainsFunc(f.comparison().Leaves(f.Desired.New, f.Desired.Old), h.Has)
}

// recorded returns what the composition function recorded as held on an object before or after its apply; nil for nothing.
func recorded(req *request.Request, manager string, on *unstructured.Unstructured) *request.Held {
	if req.Actor != request.ActorUnknown || req.Operation != request.Update || !subject.IsComposedApply(manager) {
		return nil
	}
	value := identity.Annotation(on, v1alpha1.AnnotationKeyHeld)
	if value == "" {
		return nil
	}
	var h v1alpha1.Held
	if json.Unmarshal([]byte(value), &h) != nil || h.Operation != string(request.Update) {
		return nil
	}
	return request.HeldOf(h.HeldDrift)
}

// comparison returns how the object is compared before and after. The composition function knows the
// lists of built-in kinds alone, and what it recorded has the paths that it saw.
func (f *Facts) comparison() change.Comparison {
	return change.Comparison{Lists: change.BuiltinLists(f.Req.Kind), Unstored: f.Req.Unstored(), Secrets: f.Secrets()}
}

// Leaves returns the leaves that an update changes; nil for other operations.
func (f *Facts) Leaves() []change.Leaf {
	if f.Req.Operation != request.Update {
		return nil
	}
	out := f.comparison().Leaves(f.Desired.Old, f.Desired.New)
	for _, c := range f.Changes {
		if c.Path == PathExternalName {
			value, _ := c.New.(string)
			out = append(out, change.Leaf{Path: PathExternalName, Value: value})
		}
	}
	return out
}
