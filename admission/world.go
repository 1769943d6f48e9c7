package admission

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ErrNotFound is returned (wrapped or not) by World.Parent for an object that
// does not exist, or that exists with another UID than the reference names.
var ErrNotFound = errors.New("not found")

// ErrDeleted is an ErrNotFound of an object of which there is evidence that it was
// deleted: an object of that UID was seen being deleted, or its Namespace is. A
// reference to an object that does not exist is no evidence, since any user who may
// edit an object can write one (KR-13-03).
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

	// Managed returns the managed resources below a composite or Claim, read live.
	Managed(ctx context.Context, root *parent.State) ([]*parent.State, error)

	// Below returns what is held of changes of an object's children, and of theirs: at most MaxBelow.
	Below(ctx context.Context, object *parent.State) []Below

	// Component reports whether a request is by a component of Kausality.
	Component(user subject.User, fieldManager string) bool

	// ControllerUser reports whether a user that is no machine may be an object's own controller, by name.
	ControllerUser(name string) bool

	// MayApprove reports whether a user may set approvals and the like on an object. It is called where Options.ApproverRBAC is
	// set.
	MayApprove(ctx context.Context, user subject.User, object parent.Ref) (bool, error)

	// MayUpdateStatus reports whether a user may update the status of objects like this one, by its kind and Namespace. It is
	// called where a field manager shows that a user is a controller, and no record does (KR-13-04).
	MayUpdateStatus(ctx context.Context, user subject.User, object parent.Ref) (bool, error)

	// Guarded reports whether requests about an object are reviewed, so that approvals on it count (KR-13-15).
	Guarded(object *parent.State) bool

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

	// Defaults returns those of a kind that a CRD defines; nil where there are none, or the schema is unknown.
	Defaults(gvk schema.GroupVersionKind) *change.Defaults

	// Object returns an object as it is stored; nil where only its State is known, which expressions then see. It is called
	// where an expression of a policy decides whether an object initializes.
	Object(ctx context.Context, ref parent.Ref) (map[string]any, error)

	// Build returns the build of the controller that makes a request about a child of a parent; empty where it is unknown. It
	// is called for changes by the parent's controller.
	Build(ctx context.Context, req *Request, p *parent.State) (allowance.Build, error)

	// Author returns a cause with Author and Claimed, or Manager, of the Composition or Function it is a revision of; with none
	// of them where they are unknown. It is called for drift.
	Author(ctx context.Context, cause v1alpha1.HopCause) (v1alpha1.HopCause, error)
}

// Policies is where the policies of a cluster come from. An *allowance.Set is one
// that never changes. Implementations are safe for concurrent use; each decision
// uses one Set from its beginning to its end.
type Policies interface {
	// Policies in force; nil for none.
	Policies() *allowance.Set
}

// Options of an Evaluator. The zero value of each is its default.
type Options struct {
	// DefaultMode is v1alpha1.ModeLog where empty.
	DefaultMode v1alpha1.Mode
	// Identify selects how the parent's controller is identified.
	Identify Identify
	// ExpectUntil selects how long changes are expected after an intent.
	ExpectUntil ExpectUntil
	// ComposedRefusalCode is the HTTP code of refusals to Crossplane's own
	// apply of composed resources; 422 where 0 (KR-05-24).
	ComposedRefusalCode int32
	// ApproverRBAC requires World.MayApprove of users who set approvals and the like.
	ApproverRBAC bool
	// CloseTo are the verbs of a closed gate beside Observe: none, or
	// LateInitialize.
	CloseTo []v1alpha1.Verb
	// CarryPendingDrift opens the gate although the external resource differs
	// outside of the accepted change.
	CarryPendingDrift bool
	// Ignore selects external differences that are ignored; nil for none.
	Ignore external.Rules
	// KeepIntent: the trace of an unrequested change begins with that of the parent, whose
	// last intent is recorded nowhere else (KR-07-09).
	KeepIntent bool
	// Unreported: Reports of decisions are not sent. They are present where there is
	// something to report, and hold no Drift.
	Unreported bool
	// Remember what is refused or logged as drift in Decision.Drift, for the Request.Held of later requests.
	Remember bool
	// Separates: the adapter writes Decision.Rest. Otherwise a change of which a part was held before is refused.
	Separates bool
}

// MaxBelow is how many held changes World.Below returns.
const MaxBelow = 64

// Below is what is held of a child.
type Below struct {
	// Child, as in identity.Describe.
	Child string
	// Operation of the change.
	Operation Operation
	// Paths of the fields that an Update would change.
	Paths []string
	// ID of the difference, and the intent generation of the parent since which it is held; 0 where that is unknown.
	ID    string
	Since int64
	// Own: the child is one of the object, and not of a child of it.
	Own bool
}

// VerbApprove is the RBAC verb that approver RBAC requires (KR-02-13).
const VerbApprove = "approve"

// Identify is the value of --identify-controller.
type Identify string

const (
	// IdentifyAuto applies all rules in their order (KR-04-06).
	IdentifyAuto Identify = "auto"
	// IdentifyUserHash applies the rule about users alone.
	IdentifyUserHash Identify = "user-hash"
	// IdentifyFieldManager applies the rules about field managers alone.
	IdentifyFieldManager Identify = "field-manager"
)

// ExpectUntil is the value of --expect-until.
type ExpectUntil string

const (
	// ExpectUntilConverged ends with the latch (KR-03-05).
	ExpectUntilConverged ExpectUntil = "converged"
	// ExpectUntilObserved ends when the controller observed the generation, converged
	// or not (KR-03-04).
	ExpectUntilObserved ExpectUntil = "observed"
)
