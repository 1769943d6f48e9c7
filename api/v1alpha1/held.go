package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Held is what the composition function holds back of one composed resource.
// The same change gives the same value: there is no time in it.
type Held struct {
	// Reason of the refusal, as in Drift or Frozen.
	Reason string `json:"reason"`
	// Operation that is held: UPDATE, DELETE, or CREATE of another kind under
	// the same name in the Composition.
	Operation string `json:"operation"`
	// Paths of the fields that would change, sorted, at most MaxHeldPaths; none
	// where the resource as a whole would be deleted or replaced.
	Paths []string `json:"paths,omitempty"`
	// Difference has the first of them with their values, at most MaxHeldValues bytes.
	// Secret values are replaced.
	Difference []FieldDifference `json:"difference,omitempty"`
	// ID of the difference, and the whole digest that it abbreviates.
	ID     string `json:"id,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Approve is the command that lets exactly this change through; empty where
	// an approval would not, as while the composite is frozen.
	Approve string `json:"approve,omitempty"`
	// Lacks is what the votes for it lack by the ApprovalRules that match, as a clause; empty where none does.
	Lacks string `json:"lacks,omitempty"`
	// Causes of a change that reverts an edit by another user, without authors; nil for any other change, whose
	// cause is the revision of the Composition.
	Causes []HopCause `json:"causes,omitempty"`
	// Before: all of it was held before the last intent, which changes nothing of it
	// and does not wait for it.
	Before    bool `json:"before,omitempty"`
	HeldDrift `json:",inline"`
}

// HeldDrift is what a held change has of drift. A later intent does not allow it; nor does a freeze in between.
type HeldDrift struct {
	// Drift of an update by path, with a digest of the wanted value each. The items of
	// lists are named by their merge keys. HeldWhole stands for all paths, and for a
	// creation or deletion. Empty where nothing was refused as drift.
	Drift map[string]string `json:"drift,omitempty"`
	// Since is the intent of the composite after which it was first held.
	Since *SettledIntent `json:"since,omitempty"`
}

// HeldWhole is the path of HeldDrift that stands for all paths.
const HeldWhole = "*"

// MaxHeldDrift is how many paths a HeldDrift has; with more it has HeldWhole alone.
const MaxHeldDrift = 64

// MaxHeldPaths is how many paths a Held names.
const MaxHeldPaths = 16

// MaxHeldValues is the size in bytes of the paths and values of a Held's Difference: a
// composite may hold changes of hundreds of resources, which Crossplane receives in one
// message.
const MaxHeldValues = 2048

// HeldCreation is the creation of a composed resource that the composition
// function holds back. The resource does not exist and cannot carry a Held of
// its own. The same creation gives the same value: there is no time in it.
type HeldCreation struct {
	// Resource is its name in the Composition; never empty.
	Resource   string `json:"resource"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace of the object; empty for a cluster-scoped one.
	Namespace string `json:"namespace,omitempty"`
	// Name of the object; empty where Crossplane generates one.
	Name string `json:"name,omitempty"`
	// Reason of the refusal, as in Drift or Frozen.
	Reason string `json:"reason"`
	// ID of the difference, and the whole digest that it abbreviates; empty where none was worked out, as while the
	// composite is frozen.
	ID     string `json:"id,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Approve is the command that allows exactly this creation; empty where an
	// approval would not.
	Approve string `json:"approve,omitempty"`
	// Lacks as in Held.
	Lacks string `json:"lacks,omitempty"`
	// Before: it was held before the last intent, which does not wait for it.
	Before    bool `json:"before,omitempty"`
	HeldDrift `json:",inline"`
}

// MaxHeldCreations is how many creations AnnotationKeyHeldCreations lists; the
// message of the condition counts the rest.
const MaxHeldCreations = 16

// SettledIntent is the last intent of a composite that the composition function
// knows to have settled, where no webhook keeps settled-generation.
type SettledIntent struct {
	// Generation of the composite at which the intent was first seen.
	Generation int64 `json:"generation"`
	// At is the time of the intent, RFC 3339 UTC, whole seconds.
	At metav1.Time `json:"at"`
	// State is a digest of the desired state without what Crossplane writes into it.
	State string `json:"state,omitempty"`
}
