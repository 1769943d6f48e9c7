package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Schema is the version that this package encodes and decodes.
const Schema = "v1alpha1"

// MaxBytes is the size of an encoded record at most.
const MaxBytes = 2048

// Type is what a record is about.
type Type string

// Types of records.
const (
	// TypeIntent: a user or controller changed the desired state of an object, and that is
	// stored in its trace. Object is what was changed.
	TypeIntent Type = "Intent"
	// TypeDriftHeld: a change that no intent explains was refused, or is held by the composition function, or
	// an external resource differs and the gate is closed. Object is the child.
	TypeDriftHeld Type = "DriftHeld"
	// TypeDriftLogged: the same, where the mode is log and the change passed.
	TypeDriftLogged Type = "DriftLogged"
	// TypeResolved: a drift is over; Reason is why.
	TypeResolved Type = "Resolved"
	// TypeVote: a user approved a difference, alone or as one of several. Object holds the approval.
	TypeVote Type = "Vote"
	// TypeRejection: a user rejected changes of a child.
	TypeRejection Type = "Rejection"
	// TypeApprovalUsed: a change passed by an approval or a policy that grants one. Object is the child.
	TypeApprovalUsed Type = "ApprovalUsed"
	// TypeGateOpened: a provider may change the external resource of a managed resource.
	TypeGateOpened Type = "GateOpened"
	// TypeGateConfirmed: the gate was closed since the provider confirmed the change.
	TypeGateConfirmed Type = "GateConfirmed"
	// TypeGateExpired: the gate was closed at its deadline, without a confirmation.
	TypeGateExpired Type = "GateExpired"
	// TypeGateClosed: the gate was closed for another reason.
	TypeGateClosed Type = "GateClosed"
	// TypeCloudCall: a provider changed an external resource, as its change log has it.
	TypeCloudCall Type = "CloudCall"
	// TypeCloudEvent: the cloud's audit log has a change of an external resource.
	TypeCloudEvent Type = "CloudEvent"
	// TypeFreeze: a user froze an object, or ended the freeze; Reason is which.
	TypeFreeze Type = "Freeze"
	// TypeBreakGlass: one approver let a change pass alone; Message is the reason that was given.
	TypeBreakGlass Type = "BreakGlass"
	// TypeRollout: a Rollout entered another phase or wave, which Reason names.
	TypeRollout Type = "Rollout"
)

// Reasons of TypeFreeze.
const (
	// ReasonFrozen: from then on nothing below the object changes.
	ReasonFrozen = "Frozen"
	// ReasonUnfrozen: a user ended the freeze.
	ReasonUnfrozen = "Unfrozen"
)

// Record is one thing that happened. Two records with the same id are the same record: who
// has one drops the other.
type Record struct {
	// Schema is the version of this schema: v1alpha1.
	Schema string `json:"schema"`
	// ID is a UUID of version 5 (RFC 9562) over cluster, object, type, time and occurrence, in lower case: it is the same on
	// every replica, after a restart, and each time that the record is delivered.
	ID string `json:"id"`
	// Type is what the record is about, as in Intent or GateOpened. A reader keeps types that it does not know.
	Type Type `json:"type"`
	// Time of the occurrence, RFC 3339 UTC with microseconds. It is a part of what the id is over: records with
	// the same id have the same time.
	Time metav1.MicroTime `json:"time"`
	// Cluster in which it happened.
	Cluster Cluster `json:"cluster"`
	// Object that the record is about.
	Object Object `json:"object"`
	// Parent of the object, whose spec requests what the object is; absent where it has none, or where that is unknown.
	Parent *Object `json:"parent,omitempty"`
	// External name of the external resource, as in crossplane.io/external-name, at most 512 bytes; empty for none.
	External string `json:"external,omitempty"`
	// Operation on the object is CREATE, UPDATE or DELETE; empty where there was no request.
	Operation string `json:"operation,omitempty"`
	// Actor who made it happen; absent where that is unknown, and for what happens by itself.
	Actor *Actor `json:"actor,omitempty"`
	// CausedBy are the ids of the records before this one, at most 8, nearest first. The record
	// of such an id may arrive later, or never.
	CausedBy []string `json:"causedBy,omitempty"`
	// Trace of the object from its origin to its own hop, at most 8 hops: the first ones and the last ones.
	Trace []Hop `json:"trace,omitempty"`
	// Differences are the ids by which differences are approved, 16 hex digits each, at most 8.
	Differences []string `json:"differences,omitempty"`
	// Paths of the fields that differ, as in spec.forProvider.size, without their values, at most 32. Keys below secret
	// paths are replaced.
	Paths []string `json:"paths,omitempty"`
	// Verbs are what the gate lets the provider do, as in spec.managementPolicies: Create, Update, Delete; empty for none.
	Verbs []string `json:"verbs,omitempty"`
	// Approvers in the order of their votes, at most 16.
	Approvers []Approver `json:"approvers,omitempty"`
	// Approval that let the change pass; absent for none.
	Approval *Approval `json:"approval,omitempty"`
	// Reason for machines, as in Drift, Frozen, GenerationObserved or Superseded; empty for none.
	Reason string `json:"reason,omitempty"`
	// Message that a user gave as a reason, at most 512 bytes; empty for none. It never is the value of a field.
	Message string `json:"message,omitempty"`
	// Causes of the change other than an intent on the parent, at most 4.
	Causes []Cause `json:"causes,omitempty"`
	// Labels of the trace, as of a ticket, at most 16.
	Labels map[string]string `json:"labels,omitempty"`
	// Cut is true where the record was larger than 2048 bytes and a part of it is missing.
	Cut bool `json:"cut,omitempty"`
}

// Cluster of a record.
type Cluster struct {
	// Name as --cluster-name gives it; empty without the flag. Two clusters may have the same name.
	Name string `json:"name,omitempty"`
	// UID of the Namespace kube-system, by which clusters are distinguished.
	UID types.UID `json:"uid"`
}

// Object of a cluster.
type Object struct {
	// APIVersion is group and version.
	APIVersion string `json:"apiVersion"`
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace is empty for a cluster-scoped object.
	Namespace string `json:"namespace,omitempty"`
	// Name is empty where it was to be generated.
	Name string `json:"name,omitempty"`
	// UID is empty where unknown.
	UID types.UID `json:"uid,omitempty"`
	// Generation after the occurrence; 0 where unknown, and for kinds without one.
	Generation int64 `json:"generation,omitempty"`
}

// Actor is who made something happen.
type Actor struct {
	// User as the API server authenticated it.
	User string `json:"user"`
	// Via is the field manager of the request: information that clients choose. Empty where unknown.
	Via string `json:"via,omitempty"`
	// OnBehalfOf is for whom the user acted; empty for itself.
	OnBehalfOf string `json:"onBehalfOf,omitempty"`
}

// Hop of a trace in brief: an intent on one object.
type Hop struct {
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace of the object; empty for a cluster-scoped one.
	Namespace string `json:"namespace,omitempty"`
	// Name of the object; empty where it was to be generated.
	Name string `json:"name,omitempty"`
	// Generation that the intent brought about; 0 for kinds without one.
	Generation int64 `json:"generation,omitempty"`
	// User who made it; empty where unknown.
	User string `json:"user,omitempty"`
	// Unrequested: the change passed although no intent explains it.
	Unrequested bool `json:"unrequested,omitempty"`
}

// Approver is a user who approved.
type Approver struct {
	// User as the API server authenticated it.
	User string `json:"user"`
	// Via is the field manager of the vote; empty where unknown.
	Via string `json:"via,omitempty"`
	// OnBehalfOf is for whom the user acted; empty for itself.
	OnBehalfOf string `json:"onBehalfOf,omitempty"`
	// BreakGlass: the user approved alone.
	BreakGlass bool `json:"breakGlass,omitempty"`
}

// Approval that let a change pass.
type Approval struct {
	// Mode is once, generation or always; empty where unknown.
	Mode string `json:"mode,omitempty"`
	// Policy that granted it, as in ApprovalPolicy/NAMESPACE/NAME; empty for approvals by users.
	Policy string `json:"policy,omitempty"`
	// Rules are the ApprovalRules that the approvers satisfied, as in ApprovalRule/NAMESPACE/NAME, at most 8.
	Rules []string `json:"rules,omitempty"`
}

// Cause of a change.
type Cause struct {
	// Kind is CompositionRevision, FunctionRevision, GraphRevision, Image, Controller or User.
	Kind string `json:"kind"`
	// Name of the revision, image, controller or user.
	Name string `json:"name"`
	// Author of the revision; empty where unknown.
	Author string `json:"author,omitempty"`
}
