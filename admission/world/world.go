package world

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ErrNotFound is returned (wrapped or not) by World.Parent for an object that
// does not exist, or that exists with another UID than the reference names.
var ErrNotFound = errors.New("not found")

// ErrDeleted is an ErrNotFound with evidence that the object was deleted: an object of that UID was
// seen being deleted, or its Namespace is. A reference to an object that does not exist is not
// evidence, since any user who may edit an object can write one (KR-13-03).
var ErrDeleted = fmt.Errorf("deleted: %w", ErrNotFound)

// World is what Evaluate reads of a cluster. Implementations are safe for concurrent use. One that cannot answer some of the
// questions embeds Nothing, which documents what is assumed then.
type World interface {
	// Kind returns what is known of a kind; the zero Kind for one that is not known.
	Kind(gvk schema.GroupVersionKind) identity.Kind

	// Parent returns the state of an object; live reads past every cache. The error is ErrNotFound where it does not exist, and
	// ErrDeleted where it is known to have been deleted. The State is not modified.
	Parent(ctx context.Context, ref parent.Ref, live bool) (*parent.State, error)

	// Settled returns the highest intent generation at which the object is known to have settled by means other than its
	// annotation; -1 for never.
	Settled(ref parent.Ref) int64

	// StatusWriter reports whether a user with that id was seen writing the status of an object lately, before its annotations
	// show it.
	StatusWriter(ref parent.Ref, id string) bool

	// Namespace returns what is declared on a Namespace; zero where it does not exist. live reads past every cache.
	Namespace(ctx context.Context, name string, live bool) (settings.Namespace, error)

	// Managed returns the managed resources below a composite, a Claim or an instance of a graph, read live.
	Managed(ctx context.Context, root *parent.State) ([]*parent.State, error)

	// Below returns what is held of changes of an object's children, and of theirs: at most MaxBelow. The object is a parent.Family.
	Below(ctx context.Context, object *parent.State) []Below

	// Known returns what is known of the differences under an id that were refused or reported.
	Known(id string) Known

	// Component reports whether a request is by a component of Kausality.
	Component(user subject.User, fieldManager string) bool

	// MayControl reports whether a user may be a controller of objects of a role, by who they are (KR-13-62).
	MayControl(user subject.User, role parent.Role) bool

	// MayApprove reports whether a user may set approvals and the like on an object: has VerbApprove on a subresource of its
	// resource, SubresourceApproval, or on the resource itself for "".
	MayApprove(ctx context.Context, user subject.User, object parent.Ref, subresource string) (bool, error)

	// MayUpdateStatus reports whether a user may update the status of objects like this one, by its kind and Namespace. It is
	// called where a field manager shows that a user is a controller, and no record does (KR-13-04).
	MayUpdateStatus(ctx context.Context, user subject.User, object parent.Ref) (bool, error)

	// Guarded reports whether requests about an object are reviewed, so that approvals on it count (KR-13-15).
	Guarded(object *parent.State) bool

	// MayGuard reports whether requests about an object may be reviewed, whose labels are not known: it cannot be read.
	MayGuard(ref parent.Ref) bool

	// Settings returns those of the Kausality policy that covers an object with these labels; the zero Settings leave
	// everything to the Options.
	Settings(object parent.Ref, labels map[string]string) settings.Settings

	// Removing reports whether Kausality is being removed: the mode is log then, whatever objects, Namespaces and policies
	// declare.
	Removing() bool

	// Initialized returns the condition types by which a kind counts as initialized; an empty list leaves it to Initialized and
	// Ready.
	Initialized(kind schema.GroupKind) []string

	// Lists returns the lists of a kind that a CRD defines; nil where they have no merge keys, or the schema is unknown: items
	// are then compared by index.
	Lists(gvk schema.GroupVersionKind) change.Lists

	// Defaults returns the defaults of a kind that a CRD defines; nil where it has no defaults, or the schema
	// is unknown.
	Defaults(gvk schema.GroupVersionKind) *change.Defaults

	// Object returns an object as it is stored; nil where only its State is known, which expressions then see. It is called
	// where an expression of a policy decides whether an object initializes.
	Object(ctx context.Context, ref parent.Ref) (map[string]any, error)

	// Build returns the build of the controller that makes a request about a child of a parent; empty where it is unknown. It
	// is called for changes by the parent's controller.
	Build(ctx context.Context, req *request.Request, p *parent.State) (allowance.Build, error)

	// Author returns a cause with Author and Claimed, or Manager, of the Composition, Function or graph it is a revision of; with none
	// of them where they are unknown. It is called for drift.
	Author(ctx context.Context, cause v1alpha1.HopCause) (v1alpha1.HopCause, error)
}

// Known is what is known of the differences under an id. The zero value is that of an id under which nothing is known.
type Known struct {
	// Digests of the differences; more than one where another has the same id (KR-13-68).
	Digests []change.Digest
	// Requesters are the users whose requests of a deletion were refused (KR-14-62).
	Requesters []string
	// External: one of them is of an external resource.
	External bool
	// Stored: an open Drift has the differences. Otherwise they were refused, and a Drift may yet be written.
	Stored bool
}

// Is reports whether anything is known.
func (k Known) Is() bool { return len(k.Digests) > 0 || len(k.Requesters) > 0 }

// Outside reports whether one of the differences is of an external resource, or a deletion.
func (k Known) Outside() bool { return k.External || len(k.Requesters) > 0 }

// Recorded reports whether an open Drift has a difference: where two have its id, it is not known which.
func (k Known) Recorded(digest string) bool {
	return k.Stored && digest != "" && slices.Equal(k.Digests, []change.Digest{change.Digest(digest)})
}

// Policies is where the policies of a cluster come from. An *allowance.Set is one
// that never changes. Implementations are safe for concurrent use; each decision
// uses one Set from its beginning to its end.
type Policies interface {
	// Policies in force; nil for none.
	Policies() *allowance.Set
}

// VerbApprove is the RBAC verb that approver RBAC requires on the subresource SubresourceApproval (KR-02-13), which nothing serves: a role
// with all verbs on a resource, as editors of composites and managed resources have by Crossplane's RBAC manager, does not have it.
const (
	VerbApprove         = "approve"
	SubresourceApproval = "approval"
)
