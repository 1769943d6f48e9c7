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
	// DriftBrokenGlass of a report: one user approved the change alone. It comes before Resolved.
	DriftBrokenGlass DriftPhase = "BrokenGlass"
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
	// ID of the difference: the first 16 hex digits of Digest.
	ID string `json:"id"`
	// Digest of the difference, which an approval by its ID is about: a SHA-256 over parent, child and difference, in hex.
	// Empty for a Drift of an earlier release.
	// +optional
	Digest string `json:"digest,omitempty"`
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
	// Request that was refused or logged; nil where there was none, as for External, and
	// for what the composition function holds.
	// +optional
	Request *ReportRequest `json:"request,omitempty"`
	// SuggestedApproval is the command that approves exactly this difference.
	// +optional
	SuggestedApproval string `json:"suggestedApproval,omitempty"`
}

// DriftDelivery is what a receiver of DriftReports knows of a drift.
type DriftDelivery struct {
	// Receiver is the host of --drift-webhook-url and the first 8 hex digits of the
	// SHA-256 of the URL, which may be a secret.
	Receiver string `json:"receiver"`
	// Since is the occurrence that it is about, as status.since has it.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Phase that the receiver accepted last; empty for none of this occurrence.
	// +optional
	Phase DriftPhase `json:"phase,omitempty"`
	// ReportedAt is when it accepted that.
	// +optional
	ReportedAt *metav1.Time `json:"reportedAt,omitempty"`
	// Attempts that failed for the next phase.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// LastAttempt that failed.
	// +optional
	LastAttempt *metav1.Time `json:"lastAttempt,omitempty"`
	// NextAttempt is not before this time.
	// +optional
	NextAttempt *metav1.Time `json:"nextAttempt,omitempty"`
	// Message is why the report of the next phase could not be delivered; empty for no
	// failure.
	// +optional
	Message string `json:"message,omitempty"`
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
	// BrokenGlass is the vote of the user who approved it alone, with the reason; nil for none.
	// +optional
	BrokenGlass *Vote `json:"brokenGlass,omitempty"`
	// Approval by which it was resolved, as the trace of the child has it: who approved it, or the policy that did. nil where it was
	// resolved otherwise, and where that is not known.
	// +optional
	Approval *HopApproval `json:"approval,omitempty"`
	// Requesters are the users who requested the deletion, at most 16; nil for other changes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Requesters []string `json:"requesters,omitempty"`
	// RepeatFor is the controller that was refused a DELETE which follows from
	// another one: the garbage collector, the namespace controller or Crossplane. The gate repeats it once it is allowed. Empty for none.
	// +optional
	RepeatFor string `json:"repeatFor,omitempty"`
	// Deliveries are what the receivers of DriftReports know of it, one entry for each.
	// +optional
	// +listType=map
	// +listMapKey=receiver
	// +kubebuilder:validation:MaxItems=32
	Deliveries []DriftDelivery `json:"deliveries,omitempty"`
	// Ruling is what was decided on the parent, as it is read every few seconds; nil for nothing, and while it is resolved.
	// +optional
	Ruling *DriftRuling `json:"ruling,omitempty"`
	// Snoozed: no receiver knows of this occurrence, which the parent's snooze has
	// silenced. It is reported if it is open when the snooze ends.
	// +optional
	Snoozed bool `json:"snoozed,omitempty"`
}

// DriftRuling is what was decided on the parent of a drift, with texts that are cut to 512 bytes.
type DriftRuling struct {
	// Rejected is the rejection that the drift matches; nil for none.
	// +optional
	Rejected *Rejection `json:"rejected,omitempty"`
	// Snooze of the parent; nil for none.
	// +optional
	Snooze *Snooze `json:"snooze,omitempty"`
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
	// ID of the difference, by which it is approved. It is the same for each occurrence.
	ID string `json:"id"`
	// ReportID is the same each time that this phase of this occurrence is sent: a receiver
	// that has seen it drops the report. Header Idempotency-Key has it as well.
	ReportID string `json:"reportID"`
	// Test: kausality notify test sent it, and it is about no drift.
	Test bool `json:"test,omitempty"`
	// Phase is Detected, BrokenGlass or Resolved.
	Phase DriftPhase `json:"phase"`
	// Relation is ControllerChild for a change of the child object, External for a change
	// of its external resource.
	Relation Relation `json:"relation"`
	// Cluster as --cluster-name names it; empty without the flag.
	Cluster string `json:"cluster,omitempty"`
	// Title is one line with what happened to which object, and why.
	Title string `json:"title"`
	// Drift is the object in the cluster.
	Drift ObjectReference `json:"drift"`
	// Parent of the child, whose spec does not request the change.
	Parent ReportParent `json:"parent"`
	// Child that is changed.
	Child ReportChild `json:"child"`
	// Since is when this occurrence was first seen.
	Since *metav1.Time `json:"since,omitempty"`
	// LastSeen is when it was last seen.
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
	// Count of refusals, at least.
	Count int64 `json:"count,omitempty"`
	// OldObject is the child as it is stored when the report is sent, without what is
	// secret; nil on CREATE, and unless whole objects are chosen.
	OldObject *runtime.RawExtension `json:"oldObject,omitempty"`
	// NewObject is the child with the difference, the stored one on DELETE and External, and of what
	// the composition function holds; nil where OldObject is, and where the difference is cut short.
	NewObject *runtime.RawExtension `json:"newObject,omitempty"`
	// Difference field by field; at most 32 entries.
	Difference []FieldDifference `json:"difference,omitempty"`
	// Cause, as text.
	Cause string `json:"cause,omitempty"`
	// Causes that cannot be excluded, with the authors of revisions.
	Causes []HopCause `json:"causes,omitempty"`
	// Holder is Function where the composition function holds the change.
	Holder DriftHolder `json:"holder,omitempty"`
	// Votes of the users who approved it, where ApprovalRules match it.
	Votes []Vote `json:"votes,omitempty"`
	// Lacks is what the votes lack by these rules, as text.
	Lacks string `json:"lacks,omitempty"`
	// BrokenGlass is the vote of the user who approved the change alone, with the reason, in phase BrokenGlass.
	BrokenGlass *Vote `json:"brokenGlass,omitempty"`
	// SuggestedApproval is the command that approves exactly this difference.
	SuggestedApproval string `json:"suggestedApproval,omitempty"`
	// Commands for who decides: approve, reject, explain, trace.
	Commands []ReportCommand `json:"commands,omitempty"`
	// Links as --drift-webhook-link names them.
	Links []ReportLink `json:"links,omitempty"`
	// Request that was refused; nil for External.
	Request *ReportRequest `json:"request,omitempty"`
	// Resolution is the reason, where Phase is Resolved.
	Resolution string `json:"resolution,omitempty"`
	// Approval by which it was resolved, where Phase is Resolved: who approved it, or the policy that did; nil for none.
	Approval *HopApproval `json:"approval,omitempty"`
}

// ReportCommand is a command that a report suggests.
type ReportCommand struct {
	// Name is approve, reject, explain or trace.
	Name string `json:"name"`
	// Command for a POSIX shell.
	Command string `json:"command"`
}

// ReportLink of a report.
type ReportLink struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// ReportParent is the parent as it was when the report was sent.
type ReportParent struct {
	ObjectReference `json:",inline"`
	// ObservedGeneration is the generation that its controller has seen.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ControllerManager is the field manager of its controller.
	ControllerManager string `json:"controllerManager,omitempty"`
	// LifecyclePhase is Initializing, Initialized or Deleting.
	LifecyclePhase string `json:"lifecyclePhase,omitempty"`
	// Labels of the parent, at most 32: reports are routed by them.
	Labels map[string]string `json:"labels,omitempty"`
	// Intent is the last one on the parent: who requested what it has.
	Intent *ReportIntent `json:"intent,omitempty"`
}

// ReportIntent is the last intent on a parent.
type ReportIntent struct {
	// User who made it; empty where unknown.
	User string `json:"user,omitempty"`
	// Generation of the parent that has it.
	Generation int64 `json:"generation,omitempty"`
	// At is when it was made.
	At *metav1.Time `json:"at,omitempty"`
	// Labels of its trace, as of a ticket.
	Labels map[string]string `json:"labels,omitempty"`
}

// ReportChild is the child of a report.
type ReportChild struct {
	ObjectReference `json:",inline"`
	// Labels of the child, at most 32.
	Labels map[string]string `json:"labels,omitempty"`
}

// ReportRequest is the request behind a report.
type ReportRequest struct {
	// User who made it.
	User string `json:"user"`
	// Groups of the user, at most 16.
	// +optional
	Groups []string `json:"groups,omitempty"`
	// UID of the AdmissionReview.
	// +optional
	UID string `json:"uid,omitempty"`
	// FieldManager of the request.
	// +optional
	FieldManager string `json:"fieldManager,omitempty"`
	// Operation is CREATE, UPDATE or DELETE.
	Operation string `json:"operation"`
	// DryRun is false: dry-runs are not reported.
	DryRun bool `json:"dryRun"`
}
