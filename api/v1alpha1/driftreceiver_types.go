package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConditionReady of a DriftReceiver: it accepts what it is sent.
const ConditionReady = "Ready"

// Reasons of ConditionReady of a DriftReceiver.
const (
	// ReasonDelivered: it accepted the last report; the status is True.
	ReasonDelivered = "Delivered"
	// ReasonDeliveryFailed: the last attempt failed, as where nothing answers. The status is False, and attempts are repeated.
	ReasonDeliveryFailed = "DeliveryFailed"
	// ReasonDeliveryRefused: it accepts reports, but refuses some of them. The status is False, and these are repeated.
	ReasonDeliveryRefused = "DeliveryRefused"
	// ReasonDecisionsNotReceived: it accepts what it is sent, but what users decide there does not arrive, as clicks in Slack. The status is False, and
	// the connection is tried again.
	ReasonDecisionsNotReceived = "DecisionsNotReceived"
	// ReasonDeliveryNone: nothing was sent so far; the status is Unknown.
	ReasonDeliveryNone = "DeliveryNone"
)

// DriftReceiverSpec names a receiver and who sends to it.
type DriftReceiverSpec struct {
	// Component that sends: kausality-webhook, or kausality-gate for external drift.
	Component string `json:"component"`
	// Receiver is its host and the first 8 hex digits of the SHA-256 of its URL, as status.deliveries of Drifts has it.
	Receiver string `json:"receiver"`
}

// DriftReceiverStatus shows whether reports arrive. Numbers and times are written with a condition that changes, and otherwise once a minute.
type DriftReceiverStatus struct {
	// Pending Drifts, whose reports are not delivered.
	// +optional
	Pending int64 `json:"pending,omitempty"`
	// OldestPending is when the oldest of them was first seen.
	// +optional
	OldestPending *metav1.Time `json:"oldestPending,omitempty"`
	// LastDelivered is when it accepted a report last.
	// +optional
	LastDelivered *metav1.Time `json:"lastDelivered,omitempty"`
	// NextAttempt is when it is sent something again, where it fails.
	// +optional
	NextAttempt *metav1.Time `json:"nextAttempt,omitempty"`
	// Conditions: Ready is whether it accepts what it is sent.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DriftReceiver shows whether DriftReports reach one receiver. Kausality alone writes it, for each --drift-webhook-url of each
// component that sends; it configures nothing.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Component",type=string,JSONPath=`.spec.component`
// +kubebuilder:printcolumn:name="Receiver",type=string,JSONPath=`.spec.receiver`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.pending`
// +kubebuilder:printcolumn:name="Oldest",type=date,JSONPath=`.status.oldestPending`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type DriftReceiver struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DriftReceiverSpec `json:"spec"`
	// +optional
	Status DriftReceiverStatus `json:"status,omitempty"`
}

// DriftReceiverList is a list of DriftReceiver.
//
// +kubebuilder:object:root=true
type DriftReceiverList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DriftReceiver `json:"items"`
}
