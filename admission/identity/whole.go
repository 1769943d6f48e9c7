package identity

import (
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Whole is what the deletion of a composite, a Claim or an instance of a graph deletes: the managed resources below it, each with its external
// resource (KR-13-64). The zero value has none.
type Whole struct {
	// Digest of the deletion. One more managed resource, or another external resource of one, makes another digest.
	Digest change.Digest
	// Below returns the managed resources as they are now; false where they cannot be read.
	Below func() ([]*parent.State, bool)
	// NamespaceLabels returns the labels of a Namespace, nil where they are not known; nil where those of none are.
	NamespaceLabels func(name string) map[string]string

	members map[string]string
}

// WholeOf returns the deletion of a composite, a Claim or an instance with the managed resources below it.
func WholeOf(root *parent.State, below []*parent.State) Whole {
	w := Whole{Below: func() ([]*parent.State, bool) { return below, true }, members: make(map[string]string, len(below))}
	list := make([]change.Change, 0, len(below))
	for _, mr := range below {
		path, external := memberOf(mr)
		if _, has := w.members[path]; !has {
			list = append(list, change.Change{Path: path, Old: external})
		}
		w.members[path] = external
	}
	slices.SortFunc(list, func(a, b change.Change) int { return strings.Compare(a.Path, b.Path) })
	w.Digest = change.DigestOf(v1alpha1.RelationExternal, "DELETE", OfParent(root), OfChild(root), list)
	return w
}

// Has reports whether a managed resource is one of them, with the external resource that it has now.
func (w Whole) Has(mr *parent.State) bool {
	path, external := memberOf(mr)
	was, has := w.members[path]
	return has && was == external
}

// memberOf returns what identifies a managed resource in a Whole, whatever version it is read in, and
// its external resource.
func memberOf(mr *parent.State) (path, external string) {
	return mr.GroupKind().String() + "/" + mr.Namespace + "/" + mr.Name, string(mr.Represents())
}
