package admission

import (
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// PathExternalName is the external name as a field path: metadata, and a part of the
// desired state of a managed resource (KR-13-17).
const PathExternalName = "metadata.annotations[" + v1alpha1.AnnotationKeyExternalName + "]"

// retargeted reports whether an update points a managed resource at another external
// resource, or at none. A name that a new one would get anyway changes nothing: its own,
// by the runtime's initializer.
func retargeted(req *Request, kind identity.Kind) bool {
	if req.Operation != Update || req.Subresource != "" || !kind.ManagementPolicies {
		return false
	}
	was, is := parent.ExternalOf(req.OldObject), parent.ExternalOf(req.Object)
	return was != is && !(was.Name() == "" && was.Config() == is.Config() && is.Name() == req.OldObject.GetName())
}

// withExternalName adds a change of the external name to those of the spec.
func withExternalName(changes []change.Change, req *Request) []change.Change {
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

// names reports whether the request does nothing but name the external resource of a
// managed resource that had no name, or that of its object: initializers of providers
// do, before anything else shows who the provider is (KR-13-04).
func (f *facts) names() bool {
	return f.namesAlone() &&
		parent.ExternalOf(f.req.OldObject).Names(parent.ExternalOf(f.req.Object), f.req.OldObject.GetName())
}

// nextGeneration is the generation after the write: a change of the external name alone
// leaves it, unless it closes the gate.
func (f *facts) nextGeneration() int64 {
	if f.namesAlone() && !f.maskMoves {
		return f.req.OldObject.GetGeneration()
	}
	return f.req.NextGeneration()
}

// namesAlone reports whether an update changes the external name and nothing else of the
// desired state.
func (f *facts) namesAlone() bool {
	return f.retarget && len(f.changes) == 1 && f.changes[0].Path == PathExternalName
}

// retargetedBelow decides about a managed resource below a composite that is deleted,
// which represents another external resource than when its gate was last opened or
// closed: an approval of the whole is not about that one (KR-13-18).
func (ev *evaluation) retargetedBelow(root *parent.State, blocked []*parent.State) (verdict, deletion, bool) {
	i := slices.IndexFunc(blocked, gating.Retargeted)
	if i < 0 {
		return verdict{}, deletion{}, false
	}
	mr := blocked[i]
	j := ev.judge(root, mr, "the external resource of "+identity.Describe(mr.Ref)+
		" is another one than before, and an approval of the whole is not about it")
	if mr.Parent.Name != "" {
		j.id = identity.DeletionID(&parent.State{Ref: mr.Parent}, mr) // that of the gate, wherever it is approved
	}
	j.blocked, j.mode = []*parent.State{mr}, v1alpha1.ModeEnforce
	v, d := ev.blockedDeletion(j)
	return v, d, true
}
