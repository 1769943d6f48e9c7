package facts

import (
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// PathExternalName is the external name as a field path: metadata, and a part of the
// desired state of a managed resource (KR-13-17).
const PathExternalName = "metadata.annotations[" + v1alpha1.AnnotationKeyExternalName + "]"

// retargeted reports whether an update points a managed resource at another external
// resource, or at none. A name that a new one would get anyway changes nothing: its own,
// by the runtime's initializer.
func retargeted(req *request.Request, kind identity.Kind) bool {
	if req.Operation != request.Update || req.Subresource != "" || !kind.ManagementPolicies {
		return false
	}
	was, is := parent.ExternalOf(req.OldObject), parent.ExternalOf(req.Object)
	return was != is && !(was.Name() == "" && was.Config() == is.Config() && is.Name() == req.OldObject.GetName())
}

// withExternalName adds a change of the external name to those of the spec.
func withExternalName(changes []change.Change, req *request.Request) []change.Change {
	const key = v1alpha1.AnnotationKeyExternalName
	was, is := identity.Annotation(req.OldObject, key), identity.Annotation(req.Object, key)
	if was == is {
		return changes
	}
	c := change.Change{Path: PathExternalName, Verb: change.Mutate, Old: was, New: is}
	switch {
	case was == "":
		c.Verb, c.Old = change.Insert, nil
	case is == "":
		c.Verb, c.New = change.Delete, nil
	}
	out := append(slices.Clone(changes), c)
	slices.SortFunc(out, func(a, b change.Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// Names reports whether the request does nothing but name the external resource of a
// managed resource that had no name, or that of its object: initializers of providers
// do, before anything else shows who the provider is (KR-13-04).
func (f *Facts) Names() bool {
	return f.NamesAlone() &&
		parent.ExternalOf(f.Req.OldObject).Names(parent.ExternalOf(f.Req.Object), f.Req.OldObject.GetName())
}

// NamesAlone reports whether an update changes the external name and nothing else of the
// desired state.
func (f *Facts) NamesAlone() bool {
	return f.Retarget && len(f.Changes) == 1 && f.Changes[0].Path == PathExternalName
}
