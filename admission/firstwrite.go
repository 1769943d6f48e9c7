package admission

import (
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// showsProvider reports whether an update of a managed resource shows that its provider makes it, before a
// status or finalizer does (KR-07-08): it has no content of its own, or the field manager is one that named
// the external resource so, or the reference resolver's. It shows nothing of a user who changed the desired
// state before: that one is an author. The caller checks that the user may update the status.
func (f *facts) showsProvider() bool {
	if f.kind.Role != parent.RoleManaged || len(f.changes) == 0 || subject.IsComposedApply(f.manager) || f.isAuthor() {
		return false
	}
	if subject.IsReferenceResolver(f.manager) {
		return true
	}
	return !parent.HasStatusWriter(f.req.OldObject) && (f.fillsIn() || parent.Named(f.req.OldObject, f.manager))
}

// isAuthor reports whether the user is recorded to have changed the object's desired state.
func (f *facts) isAuthor() bool {
	old := f.req.OldObject
	if own := trace.Of(old.GetAnnotations()).Own(); own != nil && own.User == f.req.User.Name {
		return true
	}
	return subject.ParseHashes(identity.Annotation(old, v1alpha1.AnnotationKeyUpdaters)).Has(f.hash())
}

// fillsIn reports whether the request inserts fields with nothing but zero values and defaults, and perhaps
// the external name that the object would get anyway.
func (f *facts) fillsIn() bool {
	defaults := f.World.Defaults(f.req.Kind)
	for _, d := range f.fields() {
		switch {
		case d.Path == PathExternalName:
			if !parent.ExternalOf(f.req.OldObject).Names(parent.ExternalOf(f.req.Object), f.req.OldObject.GetName()) {
				return false
			}
		case d.Verb != change.Insert || !defaults.Fill(d.At, d.New):
			return false
		}
	}
	return true
}
