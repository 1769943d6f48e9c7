package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OtherActors is how changes of a child are decided that another actor than its
// parent's controller makes: Allow, which is the default where it is empty, or
// RequireApproval.
type OtherActors string

const (
	// OtherActorsRequireApproval treats them as drift (KR-04-11). Anything else
	// treats them as new origins, which are allowed.
	OtherActorsRequireApproval OtherActors = "RequireApproval"
)

// MixedCauses is how a change of a child is decided of which a part was refused
// before the last intent of its parent, and which has other changes that the intent
// explains: Hold, Refuse or Admit. Where it is empty, that is Hold for an apply by
// Crossplane or kro, and Refuse for any other write.
type MixedCauses string

const (
	// MixedCausesHold keeps the values that are stored of what was refused, in the
	// same write (KR-05-62).
	MixedCausesHold MixedCauses = "Hold"
	// MixedCausesRefuse refuses the whole write (KR-05-63).
	MixedCausesRefuse MixedCauses = "Refuse"
	// MixedCausesAdmit allows the whole write (KR-05-64).
	MixedCausesAdmit MixedCauses = "Admit"
)

// Kausality is a policy: which resources are guarded, where, and how. Where
// several policies cover an object, the most specific one holds for it: one that
// names its Namespace over one that selects it over one for all Namespaces, then
// one that names its resource over one for all of its group, then the first by
// name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=kausalities
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Webhook",type=string,JSONPath=`.status.conditions[?(@.type=="WebhookConfigured")].status`
// +kubebuilder:printcolumn:name="Answering",type=string,JSONPath=`.status.conditions[?(@.type=="Answering")].status`
// +kubebuilder:printcolumn:name="Outage",type=string,JSONPath=`.status.duringOutage`
// +kubebuilder:printcolumn:name="Resources",type=integer,JSONPath=`.status.resources`
// +kubebuilder:printcolumn:name="Managed",type=integer,JSONPath=`.status.managedResources`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Kausality struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec KausalitySpec `json:"spec"`
	// +optional
	Status KausalityStatus `json:"status,omitempty"`
}

// KausalityList is a list of Kausality.
//
// +kubebuilder:object:root=true
type KausalityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Kausality `json:"items"`
}

// KausalitySpec is the content of a policy.
//
// +kubebuilder:validation:XValidation:rule="!has(self.traceOnly) || !self.traceOnly || (!has(self.mode) || self.mode == 'log') && !has(self.overrides)",message="a policy with traceOnly decides nothing: its mode can only be log, without overrides"
// +kubebuilder:validation:XValidation:rule="!has(self.traceOnly) || !self.traceOnly || !has(self.freeze)",message="a policy with traceOnly decides nothing: it cannot freeze"
type KausalitySpec struct {
	// Resources to guard. Name the parents with their children: Claims and
	// composite resources as well as managed resources.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Resources []GuardedResources `json:"resources"`
	// Namespaces to guard; all, and what has no Namespace, where absent.
	// kube-system, kube-public, kube-node-lease and Kausality's own Namespace
	// never are.
	// +optional
	Namespaces *GuardedNamespaces `json:"namespaces,omitempty"`
	// ObjectSelector restricts the policy to objects with these labels.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`
	// Mode where neither the object nor its Namespace has the annotation
	// kausality.io/mode; the default of the installation where empty.
	// +kubebuilder:validation:Enum=log;enforce
	// +optional
	Mode Mode `json:"mode,omitempty"`
	// Overrides of the mode for part of what the policy covers. The first that
	// matches holds.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Overrides []ModeOverride `json:"overrides,omitempty"`
	// Suspend stops the API server from calling the webhook for what the policy
	// covers, in an emergency: no change is refused, decided or traced. Gates stay
	// closed, and no approval opens one. Managed resources under a gate cannot be
	// deleted, and Kausality's annotations stay protected.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// TraceOnly records who changes what the policy covers, and decides nothing: the mode is log, and each change is its user's own,
	// whatever the owner of the object. Values of user annotations are still checked.
	// +optional
	TraceOnly bool `json:"traceOnly,omitempty"`
	// DerivePolicies keeps AllowancePolicies in step with the ResourceGraphDefinitions of kro that the policy covers: which field of
	// an instance lets kro change what.
	// +optional
	DerivePolicies bool `json:"derivePolicies,omitempty"`
	// Freeze refuses all changes of children that the policy covers, or whose parents it covers, in both modes, until it is
	// removed or has expired: also where a more specific policy covers them. No approval opens a gate. An empty freeze is one.
	// +optional
	Freeze *Freeze `json:"freeze,omitempty"`
	// OtherActors is how changes of a child are decided that another actor than
	// its parent's controller makes: Allow (the default) allows them,
	// RequireApproval treats them as drift.
	// +kubebuilder:validation:Enum=Allow;RequireApproval
	// +optional
	OtherActors OtherActors `json:"otherActors,omitempty"`
	// MixedCauses is how a change of a child is decided of which a part was refused
	// before the last intent of its parent, and the rest follows from that intent.
	// Hold keeps the values that are stored of what was refused and allows the rest,
	// with a warning. Refuse refuses the whole write and names the fields to approve.
	// Admit allows all of it, and the trace has both causes. Where absent, it is Hold
	// for what Crossplane and kro apply, and Refuse for other controllers. Of an edit
	// of a graph of kro, Hold and Admit keep what is stored in each update that is not
	// approved; Refuse refuses it, and kro repeats it every few seconds.
	// +kubebuilder:validation:Enum=Hold;Refuse;Admit
	// +optional
	MixedCauses MixedCauses `json:"mixedCauses,omitempty"`
	// Gate of managed resources.
	// +optional
	Gate *GateSettings `json:"gate,omitempty"`
	// External is what is recorded in external systems.
	// +optional
	External *ExternalSettings `json:"external,omitempty"`
	// SecretPaths of fields with secret values, as in spec.forProvider.password:
	// nothing shows the values at and below them, or depends on them. [*] is any
	// index or key; keys that are no plain names are in brackets. Values of Secrets,
	// also in manifests, and fields that a CRD declares with format password need
	// not be named.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^[a-zA-Z][^\n]*$`
	// +listType=set
	// +optional
	SecretPaths []string `json:"secretPaths,omitempty"`
	// Lifecycle names the conditions by which a kind counts as initialized.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=apiGroup
	// +listMapKey=kind
	// +optional
	Lifecycle []LifecycleRule `json:"lifecycle,omitempty"`
}

// GuardedResources are resources of some API groups.
//
// +kubebuilder:validation:XValidation:rule="!self.apiGroups.exists(g, g.contains('*'))",message="name the API groups one by one: all groups would hold Leases, Nodes and events"
// +kubebuilder:validation:XValidation:rule="!self.apiGroups.exists(g, g in ['coordination.k8s.io','events.k8s.io','discovery.k8s.io','authentication.k8s.io','authorization.k8s.io','certificates.k8s.io','admissionregistration.k8s.io','apiregistration.k8s.io','metrics.k8s.io','kausality.io'])",message="no policy can guard Leases, events, EndpointSlices, reviews, certificates, webhook configurations, API services, metrics or Kausality's own objects"
// +kubebuilder:validation:XValidation:rule="!self.apiGroups.exists(g, g.size() == 0) || !self.resources.exists(r, r in ['*','nodes','events','endpoints','bindings','componentstatuses'])",message="of the core group name the resources one by one; nodes, events, endpoints, bindings and componentstatuses cannot be guarded"
// +kubebuilder:validation:XValidation:rule="!has(self.excluded) || '*' in self.resources",message="excluded requires resources: ['*']"
type GuardedResources struct {
	// APIGroups by name, "" for the core group. No wildcard.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9*]([-a-z0-9*]*[a-z0-9*])?(\.[a-z0-9*]([-a-z0-9*]*[a-z0-9*])?)*)?$`
	// +listType=set
	APIGroups []string `json:"apiGroups"`
	// Resources by their plural, or "*" for all of the groups. Their status and
	// scale come with them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^(\*|[a-z]([-a-z0-9]*[a-z0-9])?)$`
	// +listType=set
	Resources []string `json:"resources"`
	// Excluded plurals, where Resources is "*".
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Excluded []string `json:"excluded,omitempty"`
}

// GuardedNamespaces are the Namespaces in which a policy holds.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.names) && has(self.selector))",message="give names or a selector, not both"
type GuardedNamespaces struct {
	// Names of Namespaces.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Names []string `json:"names,omitempty"`
	// Selector of Namespaces by their labels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Excluded Namespaces.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Excluded []string `json:"excluded,omitempty"`
}

// ModeOverride is another mode for part of a policy. An absent field matches
// everything.
//
// +kubebuilder:validation:XValidation:rule="has(self.apiGroups) || has(self.resources) || has(self.namespaces)",message="an override requires apiGroups, resources or namespaces"
type ModeOverride struct {
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	// +listType=set
	// +optional
	APIGroups []string `json:"apiGroups,omitempty"`
	// Resources by their plural.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Resources []string `json:"resources,omitempty"`
	// Namespaces by name.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// +kubebuilder:validation:Enum=log;enforce
	Mode Mode `json:"mode"`
}

// GateSettings of managed resources. An absent field has the value of the
// installation's flags.
type GateSettings struct {
	// Closed form of the gate: [Observe], or [Observe, LateInitialize].
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self == ['Observe'] || self == ['Observe','LateInitialize']",message="must be [Observe] or [Observe, LateInitialize]"
	// +listType=atomic
	// +optional
	Closed []Verb `json:"closed,omitempty"`
	// Deadline after which an unconfirmed opening is closed, as in 1h or 90m; a
	// minute at least.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="must be between 1m and 168h"
	// +optional
	Deadline *metav1.Duration `json:"deadline,omitempty"`
	// IgnorePaths of the external difference, as in spec.forProvider.tags: a
	// difference at or below one of them is ignored. [*] is any index or key; keys
	// that are no plain names are in brackets, as in tags[example.org/team].
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^spec\.forProvider[.\[].+$`
	// +listType=set
	// +optional
	IgnorePaths []string `json:"ignorePaths,omitempty"`
}

// LifecycleRule names the conditions by which objects of a kind count as
// initialized, in place of Initialized and Ready. It holds for the kind in the
// whole cluster; where several policies have a rule for it, that of the first by
// name does.
type LifecycleRule struct {
	// APIGroup of the kind, "" for the core group.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:default=""
	APIGroup string `json:"apiGroup"`
	// Kind, as in Deployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Initialized are condition types: one of them with status True is enough.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=316
	// +listType=set
	Initialized []string `json:"initialized"`
}

// Conditions of a Kausality policy.
const (
	// KausalityReady: the policy is valid and its access rules are written.
	KausalityReady = "Ready"
	// KausalityWebhookConfigured: the API server calls the webhook for the
	// resources that the policy covers.
	KausalityWebhookConfigured = "WebhookConfigured"
	// KausalityAnswering: a replica of the webhook runs, as its heartbeat shows.
	KausalityAnswering = "Answering"
	// KausalityGraphs: what kro's graphs define is guarded with the graphs; absent where the policy covers neither.
	KausalityGraphs = "Graphs"
)

// Reasons of the conditions of a Kausality policy.
const (
	// KausalityReasonUnderstood: Ready is True.
	KausalityReasonUnderstood = "Understood"
	// KausalityReasonApplied: WebhookConfigured is True.
	KausalityReasonApplied = "Applied"
	// KausalityReasonNotUnderstood: the policy is invalid and has no effect.
	KausalityReasonNotUnderstood = "NotUnderstood"
	// KausalityReasonNotWritten: what follows from the policies could not be written.
	KausalityReasonNotWritten = "NotWritten"
	// KausalityReasonNoCertificate: the webhook has no serving certificate yet.
	KausalityReasonNoCertificate = "NoCertificate"
	// KausalityReasonHeartbeat: Answering is True.
	KausalityReasonHeartbeat = "Heartbeat"
	// KausalityReasonNoHeartbeat: no replica of the webhook has written its heartbeat lately.
	KausalityReasonNoHeartbeat = "NoHeartbeat"
	// KausalityReasonNoLease: the heartbeat cannot be read, or was never written.
	KausalityReasonNoLease = "NoLease"
	// KausalityReasonBeingRemoved: Kausality is being uninstalled.
	KausalityReasonBeingRemoved = "BeingRemoved"
	// KausalityReasonNotDerived: no AllowancePolicy could be derived from a graph.
	KausalityReasonNotDerived = "NotDerived"
	// KausalityReasonGuarded: Graphs is True.
	KausalityReasonGuarded = "Guarded"
	// KausalityReasonNotGuarded: graphs are guarded and what one of them defines is not, or the other way round.
	KausalityReasonNotGuarded = "NotGuarded"
	// KausalityReasonOtherRelease: another release of kro made the kind than those that Kausality knows.
	KausalityReasonOtherRelease = "OtherRelease"
)

// KausalityStatus is the observed state of a policy.
type KausalityStatus struct {
	// Conditions are Ready, WebhookConfigured and Answering, and Graphs where the
	// policy covers graphs of kro or what they define.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Resources is how many resources the API server offers that the policy
	// covers.
	// +optional
	Resources int32 `json:"resources"`
	// ManagedResources is how many of them are managed resources.
	// +optional
	ManagedResources int32 `json:"managedResources"`
	// Unknown resources are named by the policy and not offered by the API
	// server, as in databases.example.org; at most 16.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Unknown []string `json:"unknown,omitempty"`
	// MaskedCRDs are the CRDs that the policy covers and that have objects under a
	// gate, as in databases.example.org: their deletion is refused.
	// +listType=atomic
	// +optional
	MaskedCRDs []string `json:"maskedCRDs,omitempty"`
	// DuringOutage is what happens to changes that the policy covers while no webhook
	// answers: refuses, allows, or refuses in part. Suspended where it is not called.
	// +optional
	DuringOutage string `json:"duringOutage,omitempty"`
	// EnforcedNamespaces is in how many Namespaces changes are refused then because
	// their annotation kausality.io/mode is enforce.
	// +optional
	EnforcedNamespaces int32 `json:"enforcedNamespaces,omitempty"`
	// FailOpenNamespaces have that annotation, and no room in the webhook
	// configuration: changes are allowed then; at most 16 are listed.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	FailOpenNamespaces []string `json:"failOpenNamespaces,omitempty"`
}
