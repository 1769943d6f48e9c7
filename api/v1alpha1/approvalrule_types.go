package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApprovalRule declares whose approvals a change needs. Where no rule matches a change, one
// approval by one person is enough.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Effective",type=string,JSONPath=`.status.conditions[?(@.type=="Effective")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ApprovalRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ApprovalRuleSpec `json:"spec"`
	// +optional
	Status PolicyStatus `json:"status,omitempty"`
}

// ApprovalRuleList is a list of ApprovalRule.
//
// +kubebuilder:object:root=true
type ApprovalRuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ApprovalRule `json:"items"`
}

// ApprovalRuleSpec is which changes a rule is about, and what their approval needs.
//
// +kubebuilder:validation:XValidation:rule="has(self.windows) || !has(self.appliesTo) || !self.appliesTo.exists(a, a in ['Expected', 'NewOrigin'])",message="windows are needed where appliesTo has Expected or NewOrigin: these need no votes",fieldPath=".appliesTo"
type ApprovalRuleSpec struct {
	// Match selects changes; all that is given must match.
	Match ApprovalRuleMatch `json:"match"`
	// AppliesTo lists which changes the rule is about: Drift, of objects by their
	// parent's controller, and External, of external resources, where empty. Expected
	// changes, and those by other users (NewOrigin), need no votes: the windows alone
	// bind them, and must be given.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +listType=set
	AppliesTo []AppliesTo `json:"appliesTo,omitempty"`
	// Require lists whose votes are needed. Every entry must be met.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	Require []RequiredVotes `json:"require"`
	// ExpiresAfter is how long a vote counts, as in 24h, 1d or 1d12h; for ever where empty.
	//
	// +optional
	ExpiresAfter *Period `json:"expiresAfter,omitempty"`
	// Windows in which a change that is approved may pass; at any time where empty.
	//
	// +optional
	Windows *ApprovalWindows `json:"windows,omitempty"`
	// BreakGlass names who may approve alone, also outside of the windows.
	//
	// +optional
	BreakGlass *BreakGlass `json:"breakGlass,omitempty"`
}

// AppliesTo is what an ApprovalRule is about.
//
// +kubebuilder:validation:Enum=Drift;External;Expected;NewOrigin
type AppliesTo string

const (
	// AppliesToDrift: changes of objects that count as drift.
	AppliesToDrift AppliesTo = "Drift"
	// AppliesToExternal: changes of external resources that need an approval.
	AppliesToExternal AppliesTo = "External"
	// AppliesToExpected: changes that an intent explains.
	AppliesToExpected AppliesTo = "Expected"
	// AppliesToNewOrigin: changes by other users than the parent's controller, and of
	// objects without a parent.
	AppliesToNewOrigin AppliesTo = "NewOrigin"
)

// ApprovalRuleMatch selects changes.
//
// +kubebuilder:validation:XValidation:rule="has(self.resources) || has(self.namespaces) || has(self.namespaceSelector) || has(self.labelSelector) || has(self.relations) || has(self.verbs) || has(self.paths) || has(self.cel)",message="give at least one of resources, namespaces, namespaceSelector, labelSelector, relations, verbs, paths and cel"
type ApprovalRuleMatch struct {
	// Resources by group and kind.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Resources []ApprovalRuleResource `json:"resources,omitempty"`
	// Namespaces of the changed object, globs: * is any run of characters, ? is one.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=atomic
	Namespaces []string `json:"namespaces,omitempty"`
	// NamespaceSelector selects the Namespace of the changed object by its labels. What is
	// cluster-scoped has none. Where the labels are not known, the rule applies.
	//
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// LabelSelector of the changed object.
	//
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// Relations: ControllerChild for changes of Kubernetes objects, External for
	// those of external resources.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Enum=ControllerChild;External
	// +listType=set
	Relations []Relation `json:"relations,omitempty"`
	// Verbs: Create, Update, Delete.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=Create;Update;Delete
	// +listType=set
	Verbs []Verb `json:"verbs,omitempty"`
	// Paths that are changed, as in spec.forProvider.engineVersion. A path stands for
	// all below it, * for one key and ** for any number. A creation and a deletion
	// change all paths.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	Paths []string `json:"paths,omitempty"`
	// CEL expression over change, a list of {path, verb, old, new}, and resource, with
	// group, kind, namespace, name and labels. Where it cannot be evaluated, the rule
	// applies.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	CEL string `json:"cel,omitempty"`
}

// ApprovalRuleResource selects objects by their kind.
type ApprovalRuleResource struct {
	// Group of the API; "*" for all.
	//
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group"`
	// Kinds in that group; "*" for all.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Kinds []string `json:"kinds"`
}

// RequiredVotes is how many votes are needed, and whose.
type RequiredVotes struct {
	// Count of the votes of different users.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Count int32 `json:"count"`
	// Subjects whose votes count; those of every user where empty.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Subjects []Subject `json:"subjects,omitempty"`
	// NotAuthors: the votes of those who made the change do not count: who initiated an
	// intent since it was first held, who made the Composition or Function that is its
	// cause and, for a deletion, who requested it.
	//
	// +optional
	NotAuthors bool `json:"notAuthors,omitempty"`
	// UnknownAuthors is what notAuthors does where an author is not known by name: one who
	// acted as a ServiceAccount or another machine, or while nothing reviewed writes.
	// Refuse counts no votes then; Ignore, where empty, counts them.
	//
	// +optional
	// +kubebuilder:validation:Enum=Ignore;Refuse
	UnknownAuthors UnknownAuthors `json:"unknownAuthors,omitempty"`
	// People: the votes of ServiceAccounts, other machines and agents do not count. True
	// where empty.
	//
	// +optional
	// +kubebuilder:default=true
	People *bool `json:"people,omitempty"`
}

// UnknownAuthors is what a rule does about authors who are not known by name.
type UnknownAuthors string

const (
	// UnknownAuthorsIgnore counts votes as if there were none.
	UnknownAuthorsIgnore UnknownAuthors = "Ignore"
	// UnknownAuthorsRefuse counts no votes.
	UnknownAuthorsRefuse UnknownAuthors = "Refuse"
)

// ApprovalWindows are when changes may pass: in what allow gives, at any time where it is
// empty, and never in what deny gives.
//
// +kubebuilder:validation:XValidation:rule="has(self.allow) || has(self.deny)",message="give at least one of allow and deny"
type ApprovalWindows struct {
	// TimeZone of the schedules, by its name in the IANA database; UTC where empty.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// Allow lists when changes may pass; at any time that is not denied where empty.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Allow []ApprovalWindow `json:"allow,omitempty"`
	// Deny lists when changes may not pass, whatever allow gives.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Deny []ApprovalWindow `json:"deny,omitempty"`
}

// ApprovalWindow is a recurring period.
type ApprovalWindow struct {
	// Schedule by which it begins: a cron expression of five fields, as in 0 9 * * 1-4.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Schedule string `json:"schedule"`
	// Duration of the period, as in 8h.
	Duration metav1.Duration `json:"duration"`
}

// BreakGlass names who may approve alone.
type BreakGlass struct {
	// Subjects, each of whom is enough.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Subjects []Subject `json:"subjects"`
	// ReasonRequired is true: who approves alone gives a reason.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self",message="a reason is always required"
	ReasonRequired *bool `json:"reasonRequired,omitempty"`
}
