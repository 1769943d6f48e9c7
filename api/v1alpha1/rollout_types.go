package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kinds of Rollouts.
const (
	KindRollout        = "Rollout"
	KindClusterRollout = "ClusterRollout"
	KindRolloutBatch   = "RolloutBatch"
)

// LabelRollout on a RolloutBatch is the UID of its Rollout.
const LabelRollout = AnnotationPrefix + "rollout"

// Rollout lets the changes pass that wait for one cause in its Namespace, in waves.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Wave",type=integer,JSONPath=`.status.wave`
// +kubebuilder:printcolumn:name="Done",type=integer,JSONPath=`.status.done`
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.plan.objects`
// +kubebuilder:printcolumn:name="Approval",type=string,JSONPath=`.status.plan.id`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Rollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RolloutSpec `json:"spec"`
	// +optional
	Status RolloutStatus `json:"status,omitempty"`
}

// RolloutList is a list of Rollout.
//
// +kubebuilder:object:root=true
type RolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Rollout `json:"items"`
}

// ClusterRollout is a Rollout of all Namespaces, or of those that its selector names.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Wave",type=integer,JSONPath=`.status.wave`
// +kubebuilder:printcolumn:name="Done",type=integer,JSONPath=`.status.done`
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.plan.objects`
// +kubebuilder:printcolumn:name="Approval",type=string,JSONPath=`.status.plan.id`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterRollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RolloutSpec `json:"spec"`
	// +optional
	Status RolloutStatus `json:"status,omitempty"`
}

// ClusterRolloutList is a list of ClusterRollout.
//
// +kubebuilder:object:root=true
type ClusterRolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterRollout `json:"items"`
}

// RolloutSpec is which changes a Rollout lets pass, and in which waves. All but stop and proceed
// is what its approval is for: another value needs another approval.
type RolloutSpec struct {
	// Cause of the changes, as kubectl kausality pending prints it.
	Cause RolloutCause `json:"cause"`
	// Selector of the objects whose changes wait; all where not given.
	//
	// +optional
	Selector *RolloutSelector `json:"selector,omitempty"`
	// Waves in their order. Objects that are in none of them are left out.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Waves []RolloutWave `json:"waves"`
	// Advance is when the next wave begins.
	//
	// +optional
	Advance RolloutAdvance `json:"advance,omitempty"`
	// Stop lets nothing more pass while it is true. What was let through goes on.
	//
	// +optional
	Stop bool `json:"stop,omitempty"`
	// Proceed is the number of a wave, the first is 1: the waves up to it begin although
	// advance.manual is set, or objects of the wave before are not healthy.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=32
	Proceed int32 `json:"proceed,omitempty"`
}

// RolloutCause names causes. A change is of the Rollout if each of its causes is one of those
// that are given.
//
// +kubebuilder:validation:MinProperties=1
type RolloutCause struct {
	// CompositionRevision, by its name.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CompositionRevision string `json:"compositionRevision,omitempty"`
	// FunctionRevision, by its name.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	FunctionRevision string `json:"functionRevision,omitempty"`
	// Image of a controller, as Drifts name it.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
	// Controller whose build is unknown, as Drifts name it.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Controller string `json:"controller,omitempty"`
	// User who makes the changes.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	User string `json:"user,omitempty"`
	// External: external resources differ from what is wanted.
	//
	// +optional
	External bool `json:"external,omitempty"`
}

// RolloutSelector selects objects whose changes wait: parents, on which changes are approved.
//
// +kubebuilder:validation:MinProperties=1
type RolloutSelector struct {
	// Namespaces by name; of a ClusterRollout.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=atomic
	Namespaces []string `json:"namespaces,omitempty"`
	// Labels of the objects.
	//
	// +optional
	Labels *metav1.LabelSelector `json:"labels,omitempty"`
}

// RolloutWave is the objects of one wave, of those that are in none before it. One of its
// fields is given.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type RolloutWave struct {
	// Count of objects.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	Count *int32 `json:"count,omitempty"`
	// Percent of all objects that have had their turn when this wave is done, rounded up.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent *int32 `json:"percent,omitempty"`
	// Selector of objects.
	//
	// +optional
	Selector *RolloutSelector `json:"selector,omitempty"`
}

// RolloutAdvance is when the next wave begins.
type RolloutAdvance struct {
	// After the last object of a wave was let through, its objects have so long to become healthy:
	// the change has landed, they are Synced and Ready, and all gates below them are closed. 10m where not
	// given.
	//
	// +optional
	After *metav1.Duration `json:"after,omitempty"`
	// MaxUnhealthy is how many objects of a wave may be not healthy then. With more the Rollout stops.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxUnhealthy int32 `json:"maxUnhealthy,omitempty"`
	// Manual: each wave after the first waits for proceed.
	//
	// +optional
	Manual bool `json:"manual,omitempty"`
}

// RolloutPhase is how far a Rollout is.
type RolloutPhase string

// Phases of Rollouts.
const (
	// RolloutInvalid: its spec means nothing; the message is why.
	RolloutInvalid RolloutPhase = "Invalid"
	// RolloutPending: it waits for approvals.
	RolloutPending RolloutPhase = "Pending"
	// RolloutProgressing: a wave is let through, or becomes healthy.
	RolloutProgressing RolloutPhase = "Progressing"
	// RolloutPaused: the next wave waits for proceed, because advance.manual is set.
	RolloutPaused RolloutPhase = "Paused"
	// RolloutStopped: spec.stop is set, or too many objects are not healthy.
	RolloutStopped RolloutPhase = "Stopped"
	// RolloutCompleted: all waves are done.
	RolloutCompleted RolloutPhase = "Completed"
)

// RolloutStatus is the observed state of a Rollout. Only Kausality writes it.
type RolloutStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	Phase RolloutPhase `json:"phase,omitempty"`
	// Message is what the Rollout waits for, or why it stopped.
	// +optional
	Message string `json:"message,omitempty"`
	// Plan is what is to be approved; nil before it is made.
	// +optional
	Plan *RolloutPlan `json:"plan,omitempty"`
	// Votes for the plan.
	// +optional
	Votes []Vote `json:"votes,omitempty"`
	// Lacks is what the votes lack, as text; empty where the plan is approved.
	// +optional
	Lacks string `json:"lacks,omitempty"`
	// Wave that is let through; 0 before the first.
	// +optional
	Wave int32 `json:"wave,omitempty"`
	// ThroughAt is when the last object of that wave was let through; nil where some wait.
	// +optional
	ThroughAt *metav1.Time `json:"throughAt,omitempty"`
	// Done objects of all waves.
	// +optional
	Done int32 `json:"done,omitempty"`
	// Waves counts the objects of each wave.
	// +optional
	Waves []RolloutWaveStatus `json:"waves,omitempty"`
	// Unhealthy objects of the wave, at most 10.
	// +optional
	Unhealthy []RolloutObjectReason `json:"unhealthy,omitempty"`
	// LeftOut are objects whose difference is another one by now, or gone, at most 10.
	// +optional
	LeftOut []RolloutObjectReason `json:"leftOut,omitempty"`
}

// RolloutPlan is the objects and differences of a Rollout, which its RolloutBatches list.
type RolloutPlan struct {
	// ID of the plan: 16 hex digits of a hash over the spec, objects and differences. The annotation
	// kausality.io/approve-<id> on the Rollout approves it.
	ID string `json:"id"`
	// MadeAt is when the plan was made.
	MadeAt metav1.Time `json:"madeAt"`
	// Objects and their differences.
	Objects     int32 `json:"objects"`
	Differences int32 `json:"differences"`
	// Batches that list them.
	Batches int32 `json:"batches"`
}

// RolloutWaveStatus counts the objects of a wave.
type RolloutWaveStatus struct {
	Total int32 `json:"total"`
	// Waiting to be let through.
	Waiting int32 `json:"waiting"`
	// Approved: let through, and not healthy yet.
	Approved int32 `json:"approved"`
	Done     int32 `json:"done"`
	// Unhealthy when their time was over.
	Unhealthy int32 `json:"unhealthy"`
	// LeftOut: the difference is another one, or the object is gone.
	LeftOut int32 `json:"leftOut"`
}

// RolloutObjectReason is why an object is unhealthy or left out.
type RolloutObjectReason struct {
	// Object as KIND NAMESPACE/NAME.
	Object string `json:"object"`
	Reason string `json:"reason"`
}

// RolloutBatch is a part of the objects of a Rollout, and how far each is. Only Kausality
// writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=rolloutbatches
// +kubebuilder:printcolumn:name="Plan",type=string,JSONPath=`.spec.plan`
// +kubebuilder:printcolumn:name="Index",type=integer,JSONPath=`.spec.index`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RolloutBatch struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RolloutBatchSpec `json:"spec"`
	// +optional
	Status RolloutBatchStatus `json:"status,omitempty"`
}

// RolloutBatchList is a list of RolloutBatch.
//
// +kubebuilder:object:root=true
type RolloutBatchList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RolloutBatch `json:"items"`
}

// RolloutBatchSpec lists objects of a plan.
type RolloutBatchSpec struct {
	// Plan that it is of, by its id.
	Plan string `json:"plan"`
	// Index of the batch in the plan, from 0.
	Index int32 `json:"index"`
	// +listType=atomic
	Objects []RolloutObject `json:"objects"`
}

// RolloutObject is an object on which changes are approved.
type RolloutObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// +optional
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Wave of the object; the first is 1.
	Wave int32 `json:"wave"`
	// Differences that are approved.
	//
	// +listType=atomic
	Differences []RolloutDifference `json:"differences"`
}

// RolloutDifference is one difference of a child, as a Drift shows it.
type RolloutDifference struct {
	// ID of the difference.
	ID string `json:"id"`
	// Drift that shows it, in the Namespace.
	Drift string `json:"drift"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Since is when this occurrence was first seen.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// RolloutBatchStatus is how far the objects are, in the order of the spec.
type RolloutBatchStatus struct {
	// +optional
	// +listType=atomic
	Objects []RolloutObjectStatus `json:"objects,omitempty"`
}

// RolloutState is how far an object is.
type RolloutState string

// States of the objects of a Rollout; the empty one waits.
const (
	RolloutObjectWaiting   RolloutState = ""
	RolloutObjectApproved  RolloutState = "Approved"
	RolloutObjectDone      RolloutState = "Done"
	RolloutObjectUnhealthy RolloutState = "Unhealthy"
	RolloutObjectLeftOut   RolloutState = "LeftOut"
)

// RolloutObjectStatus is how far one object is.
type RolloutObjectStatus struct {
	// +optional
	State RolloutState `json:"state,omitempty"`
	// Reason of LeftOut and Unhealthy.
	// +optional
	Reason string `json:"reason,omitempty"`
}
