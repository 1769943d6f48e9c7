package allowance

import "k8s.io/apimachinery/pkg/runtime/schema"

// ExternalDeletion is what section deleting of policies declares about the external
// resources of a parent that is being deleted (KR-06-10, KR-06-12).
type ExternalDeletion int

const (
	// DeletionUndeclared: no policy has the section.
	DeletionUndeclared ExternalDeletion = iota
	// DeletionAllowed: they may be deleted.
	DeletionAllowed
	// DeletionOrphans: the section names no External Delete, which requests orphaning.
	DeletionOrphans
)

// ExternalDeletion returns what policies of the parent's kind declare about the deletion of external resources of
// managed resources of a kind. The Set may be nil.
func (s *Set) ExternalDeletion(parent, child schema.GroupKind) ExternalDeletion {
	section := Deleting(s.Of(parent))
	switch {
	case !section.Given:
		return DeletionUndeclared
	case Gives(section.External(child), VerbDelete):
		return DeletionAllowed
	}
	return DeletionOrphans
}
