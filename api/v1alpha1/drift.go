package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// DriftPhase is whether a drift is open.
type DriftPhase string

const (
	// DriftDetected: a change is refused, or the external resource differs.
	DriftDetected DriftPhase = "Detected"
	// DriftResolved: a new intent, an approval, the child's deletion or the
	// end of the difference resolved it.
	DriftResolved DriftPhase = "Resolved"
)

// DriftHolder is what holds a change.
type DriftHolder string

// HolderFunction is the composition function, which emits a resource as it is instead of
// the change, so that no request is refused.
const HolderFunction DriftHolder = "Function"

// ObjectReference names an object of a report.
type ObjectReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name is empty for a child that is to be created with a generated name.
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// Resource is the composition resource name, where the child is composed.
	// +optional
	Resource string `json:"resource,omitempty"`
}

// FieldDifference is one changed field.
type FieldDifference struct {
	// Path of the field, as in spec.forProvider.size.
	Path string `json:"path"`
	// Verb is Insert, Delete or Mutate.
	Verb string `json:"verb"`
	// Old value as JSON; empty where there was none. Redacted for Secrets.
	// +optional
	Old string `json:"old,omitempty"`
	// New value as JSON; empty where there is none. Redacted for Secrets.
	// +optional
	New string `json:"new,omitempty"`
}

// DriftSpec describes one unrequested difference.
type DriftSpec struct {
	// ID of the difference: the first 16 hex digits of a SHA-256 over parent,
	// child and difference.
	ID string `json:"id"`
	// Relation is ControllerChild for a change of the child object, External
	// for a change of its external resource.
	Relation Relation        `json:"relation"`
	Parent   ObjectReference `json:"parent"`
	Child    ObjectReference `json:"child"`
	// Intent generation of the parent when the difference was found: a later
	// intent resolves it.
	// +optional
	Intent int64 `json:"intent,omitempty"`
	// Operation that was refused: CREATE, UPDATE or DELETE; empty for External.
	// +optional
	Operation string `json:"operation,omitempty"`
	// Difference field by field; at most 32 entries are kept.
	// +optional
	Difference []FieldDifference `json:"difference,omitempty"`
	// Cause, as text: the user, or the Composition revision.
	// +optional
	Cause string `json:"cause,omitempty"`
	// Causes that cannot be excluded, at most 4, with the authors of revisions.
	// +optional
	Causes []HopCause `json:"causes,omitempty"`
	// User who made the refused request.
	// +optional
	User string `json:"user,omitempty"`
	// SuggestedApproval is the command that approves exactly this difference.
	// +optional
	SuggestedApproval string `json:"suggestedApproval,omitempty"`
}

// DriftStatus is the observed state of a drift.
type DriftStatus struct {
	// +optional
	Phase DriftPhase `json:"phase,omitempty"`
	// Since is when this occurrence was first seen.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// LastSeen is when it was last seen; written at most once a minute.
	// +optional
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
	// Count of refusals, at least; written with LastSeen.
	// +optional
	Count int64 `json:"count,omitempty"`
	// Resolution is the reason why it is resolved.
	// +optional
	Resolution string `json:"resolution,omitempty"`
	// Intent generation of the parent when it was last seen; 0 where that is unknown.
	// +optional
	Intent int64 `json:"intent,omitempty"`
	// Held is what is held of a change of the child until it is approved: a later intent
	// does not allow it. nil where nothing is.
	// +optional
	Held *HeldDrift `json:"held,omitempty"`
	// Separated: when it was last seen, the write passed without it.
	// +optional
	Separated bool `json:"separated,omitempty"`
	// Holder is Function where the composition function holds the change, as its records on
	// composed resources show; empty where it was refused.
	// +optional
	Holder DriftHolder `json:"holder,omitempty"`
	// Votes of the users who approved it, where ApprovalRules match it.
	// +optional
	Votes []Vote `json:"votes,omitempty"`
	// Lacks is what the votes lack by these rules, as text; empty where none match.
	// +optional
	Lacks string `json:"lacks,omitempty"`
	// RepeatFor is the controller that was refused a DELETE which follows from
	// another one: the garbage collector, the namespace controller or Crossplane. The gate repeats it once it is allowed. Empty for none.
	// +optional
	RepeatFor string `json:"repeatFor,omitempty"`
	// Notified: the endpoints know of this phase.
	// +optional
	Notified bool `json:"notified,omitempty"`
	// Snoozed: no endpoint knows of this occurrence, which the parent's snooze has
	// silenced. It is reported if it occurs again after the snooze.
	// +optional
	Snoozed bool `json:"snoozed,omitempty"`
}

// Drift is one open refusal or external drift. Its name is the report id, so
// that creating it is the lock that makes reports unique across replicas.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Relation",type=string,JSONPath=`.spec.relation`
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parent.name`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.child.kind`
// +kubebuilder:printcolumn:name="Child",type=string,JSONPath=`.spec.child.name`
// +kubebuilder:printcolumn:name="Count",type=integer,JSONPath=`.status.count`
// +kubebuilder:printcolumn:name="Cause",type=string,JSONPath=`.spec.cause`,priority=1
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.since`
type Drift struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DriftSpec `json:"spec"`
	// +optional
	Status DriftStatus `json:"status,omitempty"`
}

// DriftList is a list of Drift.
//
// +kubebuilder:object:root=true
type DriftList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Drift `json:"items"`
}

// DriftReport is posted to notification endpoints. It is transient: no
// metadata, never stored (KR-10-04).
//
// +kubebuilder:object:generate=true
type DriftReport struct {
	metav1.TypeMeta `json:",inline"`
	Spec            DriftReportSpec `json:"spec"`
}

// DriftReportSpec is the content of a DriftReport.
type DriftReportSpec struct {
	ID       string       `json:"id"`
	Phase    DriftPhase   `json:"phase"`
	Relation Relation     `json:"relation"`
	Parent   ReportParent `json:"parent"`
	Child    ReportChild  `json:"child"`
	// OldObject is the stored state; nil on CREATE.
	OldObject *runtime.RawExtension `json:"oldObject,omitempty"`
	// NewObject is the refused state; the stored one on DELETE and External, and of what the
	// composition function holds.
	NewObject runtime.RawExtension `json:"newObject"`
	// Difference field by field.
	Difference []FieldDifference `json:"difference,omitempty"`
	// Cause, as text.
	Cause string `json:"cause,omitempty"`
	// Causes that cannot be excluded, with the authors of revisions.
	Causes []HopCause `json:"causes,omitempty"`
	// SuggestedApproval is the command that approves exactly this difference.
	SuggestedApproval string `json:"suggestedApproval,omitempty"`
	// Request that was refused; nil for External.
	Request *ReportRequest `json:"request,omitempty"`
	// Resolution is the reason, where Phase is Resolved.
	Resolution string `json:"resolution,omitempty"`
}

// ReportParent is the parent with what the detection was based on.
type ReportParent struct {
	ObjectReference    `json:",inline"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	ControllerManager  string `json:"controllerManager,omitempty"`
	LifecyclePhase     string `json:"lifecyclePhase,omitempty"`
}

// ReportChild is the child of a report.
type ReportChild struct {
	ObjectReference `json:",inline"`
}

// ReportRequest is the request behind a report.
type ReportRequest struct {
	User         string   `json:"user"`
	Groups       []string `json:"groups,omitempty"`
	UID          string   `json:"uid,omitempty"`
	FieldManager string   `json:"fieldManager,omitempty"`
	Operation    string   `json:"operation"`
	DryRun       bool     `json:"dryRun"`
}
