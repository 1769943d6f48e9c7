package gating

import (
	"slices"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// IsOpenFor reports whether the gate that annotations show is open for a verb.
func IsOpenFor(annotations map[string]string, v v1alpha1.Verb) bool {
	g := mask.ParseGate(annotations)
	return g.State == v1alpha1.GateOpen && slices.Contains(g.Verbs, v)
}

// WouldOrphan returns why deleting a managed resource in its present state would
// orphan its external resource without a request for that, as a clause; "" where
// it would not (KR-08-10, KR-08-11).
func WouldOrphan(mr *parent.State) string {
	switch {
	case mr.Deleting(), !takesAlong(mr):
		return ""
	case PausedByPolicies(mr):
		return "it is paused by managementPolicies: []; once it is resumed, its provider would delete or orphan the external resource"
	case !mask.Gives(mr.ManagementPolicies, v1alpha1.VerbDelete):
		return "its gate is closed, the external resource would be left behind"
	case mr.Copied:
		return "its gate was opened for an object of this name that is gone" // (KR-13-58)
	case !IsOpenFor(mr.Annotations, v1alpha1.VerbDelete):
		return "the deletion of its external resource is not approved"
	case Retargeted(mr):
		return "its gate was opened for another external resource"
	}
	return ""
}

// takesAlong reports whether the deletion of a managed resource is to delete its external resource.
func takesAlong(mr *parent.State) bool {
	author := mask.AuthorOf(mr.Annotations, mr.ManagementPolicies)
	if PausedByPolicies(mr) {
		author = []string{string(v1alpha1.VerbAll)} // judged as if it were not (KR-13-66)
	}
	return mask.Gives(author, v1alpha1.VerbDelete) && !orphans(mr, author)
}

// PausedByPolicies reports whether the author of a managed resource gave it no managementPolicies: its provider does nothing, and does not
// let it go when it is deleted, until it is given some.
func PausedByPolicies(mr *parent.State) bool {
	author := mask.AuthorOf(mr.Annotations, mr.ManagementPolicies)
	return author != nil && len(author) == 0
}

// orphans reports whether the external resource of a managed resource is to be left
// behind: by an annotation, or by a deletionPolicy that managementPolicies do not
// override (crossplane-runtime v2.3, managed.ManagementPoliciesResolver.ShouldDelete).
func orphans(mr *parent.State, author []string) bool {
	return mr.Annotations[v1alpha1.AnnotationKeyDeletion] == v1alpha1.DeletionOrphan || orphansByPolicy(author, mr.DeletionPolicy)
}

func orphansByPolicy(author []string, deletionPolicy string) bool {
	return deletionPolicy == "Orphan" && slices.Contains(author, string(v1alpha1.VerbAll))
}

// Destroys reports whether the provider of a managed resource deletes its external resource
// with it, by what it reads of the spec alone.
func Destroys(mr *parent.State) bool {
	return mask.Gives(mr.ManagementPolicies, v1alpha1.VerbDelete) && !orphansByPolicy(mr.ManagementPolicies, mr.DeletionPolicy)
}

// StillDestroys reports whether the external resource of a managed resource is to be left behind, and its gate is still open
// to delete it: that was approved before (KR-08-11).
func StillDestroys(mr *parent.State) bool {
	author := mask.AuthorOf(mr.Annotations, mr.ManagementPolicies)
	return !mr.Deleting() && orphans(mr, author) && IsOpenFor(mr.Annotations, v1alpha1.VerbDelete) &&
		mask.Gives(mr.ManagementPolicies, v1alpha1.VerbDelete)
}

// Orphans reports whether a managed resource with its author's managementPolicies and
// deletionPolicy leaves its external resource behind when it is deleted. With no
// managementPolicies it is paused, and its deletion waits.
func Orphans(author []string, deletionPolicy string) bool {
	return len(author) > 0 && (!mask.Gives(author, v1alpha1.VerbDelete) || orphansByPolicy(author, deletionPolicy))
}

// OrphanReason returns why deleting a managed resource in its present state
// orphans its external resource, as a clause for the event about it; "" where it
// does not (KR-08-11).
func OrphanReason(mr *parent.State) string {
	author := mask.AuthorOf(mr.Annotations, mr.ManagementPolicies)
	switch {
	case mr.DeletionPolicy == "Orphan" && slices.Contains(mr.ManagementPolicies, string(v1alpha1.VerbAll)):
		return "its deletionPolicy is Orphan"
	case mask.Gives(mr.ManagementPolicies, v1alpha1.VerbDelete), len(mr.ManagementPolicies) == 0:
		return "" // deleted, or the deletion waits
	case mr.Annotations[v1alpha1.AnnotationKeyDeletion] == v1alpha1.DeletionOrphan:
		return "annotation " + v1alpha1.AnnotationKeyDeletion + " requests it"
	case !mask.Gives(author, v1alpha1.VerbDelete):
		return "the managementPolicies of its author have no Delete"
	case mr.DeletionPolicy == "Orphan":
		return "its deletionPolicy is Orphan"
	}
	return "the managed resource was deleted while Kausality was not guarding it"
}

// WithholdsDelete reports whether it is the mask of Kausality that withholds Delete from a managed
// resource. Its deletion orphans in log mode as well, until the gate controller restores the author's
// policies.
func WithholdsDelete(mr *parent.State) bool {
	author := mask.AuthorOf(mr.Annotations, mr.ManagementPolicies)
	return mask.Gives(author, v1alpha1.VerbDelete) && !mask.Gives(mr.ManagementPolicies, v1alpha1.VerbDelete)
}

// DeletionApproval finds the approval on a holder for the deletion of an
// object's external resource, or for what the digests of q identify. The caller
// sets these, Use, Lacks and, where no other approval counts, Exact.
func DeletionApproval(holder, object *parent.State, set approval.Set, q approval.Query) (approval.Match, bool) {
	q.APIVersion, q.Kind = object.ToAPIVersionAndKind()
	intent, _ := trace.Intent(holder)
	q.Name, q.Resource = object.Name, object.Annotations[v1alpha1.AnnotationKeyCompositionResourceName]
	q.Relation, q.Verbs, q.Named = v1alpha1.RelationExternal, []v1alpha1.Verb{v1alpha1.VerbDelete}, true
	q.Exact, q.Intent, q.Means = q.Exact || Retargeted(object), intent.Generation, verb.Of(object.GroupKind()).Means
	return set.Approved(q)
}

// OpenedBy reports whether the gate of a managed resource is open for Delete by the approval of a digest, and its provider deletes the external
// resource with it.
func OpenedBy(mr *parent.State, digest string) bool {
	return digest != "" && !mr.Deleting() && mask.ParseGate(mr.Annotations).Digest == digest && Destroys(mr) && IsOpenFor(mr.Annotations, v1alpha1.VerbDelete)
}

// DeletionRejected returns the rejection on a holder that keeps the gates of managed resources
// closed for an approved deletion; nil for none, and for a holder that is being deleted: its
// cleanup must finish.
func DeletionRejected(holder *parent.State, set approval.Set, blocked []*parent.State) *v1alpha1.Rejection {
	if holder.Deleting() {
		return nil
	}
	intent, _ := trace.Intent(holder)
	for _, mr := range blocked {
		apiVersion, kind := mr.ToAPIVersionAndKind()
		q := approval.Query{APIVersion: apiVersion, Kind: kind, Name: mr.Name, Intent: intent.Generation,
			Resource: mr.Annotations[v1alpha1.AnnotationKeyCompositionResourceName]}
		if r, ok := set.Rejected(q); ok {
			return &r
		}
	}
	return nil
}
