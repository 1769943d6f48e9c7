package v1alpha1

import (
	"slices"
	"strings"
)

// AnnotationPrefix is common to every annotation Kausality reads or writes.
const AnnotationPrefix = Group + "/"

// System annotations: written by Kausality alone. The webhook reverts the writes
// of all other clients to them in the same request (KR-02-09).
const (
	// AnnotationKeyTrace holds a JSON array of Hop, origin first, the carrier's
	// own hop last.
	AnnotationKeyTrace = AnnotationPrefix + "trace"

	// AnnotationKeyAllowances holds a JSON array of allowances.
	AnnotationKeyAllowances = AnnotationPrefix + "allowances"

	// AnnotationKeyUpdaters holds comma-separated user hashes of those who
	// changed the desired state of a child, newest last, at most MaxHashes.
	AnnotationKeyUpdaters = AnnotationPrefix + "updaters"

	// AnnotationKeyControllers holds comma-separated user hashes of those who
	// wrote the status of a parent, newest last, at most MaxHashes.
	AnnotationKeyControllers = AnnotationPrefix + "controllers"

	// AnnotationKeyControllerIDs holds comma-separated user ids of those who wrote
	// the status of a parent, newest last, at most MaxHashes: the users of
	// AnnotationKeyControllers, by hashes of 128 bits. Those of that annotation are
	// short enough that a user name with the same hash can be found (KR-13-40).
	AnnotationKeyControllerIDs = AnnotationPrefix + "controller-ids"

	// AnnotationKeyPhase holds a Phase. It is never downgraded.
	AnnotationKeyPhase = AnnotationPrefix + "phase"

	// AnnotationKeyInitialized is the legacy form of AnnotationKeyPhase; "true"
	// is read as PhaseInitialized.
	AnnotationKeyInitialized = AnnotationPrefix + "initialized"

	// AnnotationKeySettledGeneration holds the highest intent generation, in
	// decimal, at which the object settled. It is never lowered.
	AnnotationKeySettledGeneration = AnnotationPrefix + "settled-generation"

	// AnnotationKeySettledState holds what the desired state was at the
	// generation of AnnotationKeySettledGeneration: that generation in decimal, a
	// comma, and a digest of 16 hex digits. It distinguishes a write that left
	// the desired state as it was from an intent, where managedFields do not.
	AnnotationKeySettledState = AnnotationPrefix + "settled-state"

	// AnnotationKeyFingerprint holds a short hash of the controller build that
	// last changed the object.
	AnnotationKeyFingerprint = AnnotationPrefix + "fingerprint"

	// AnnotationKeyLegacyFingerprint is the legacy name of
	// AnnotationKeyFingerprint.
	AnnotationKeyLegacyFingerprint = AnnotationPrefix + "controller-ua-hash"

	// AnnotationKeyAuthors holds who initiated the intents of an object, the last one of each user, as JSON: a
	// list of Initiator, oldest first. It is written where ApprovalRules are about the Namespace.
	AnnotationKeyAuthors = AnnotationPrefix + "authors"

	// AnnotationKeyLastUpgrade names the UpgradeAllowance last used.
	AnnotationKeyLastUpgrade = AnnotationPrefix + "last-upgrade"

	// AnnotationKeyClaims holds a JSON array of Claim: the uses of approvals.
	AnnotationKeyClaims = AnnotationPrefix + "claims"

	// AnnotationKeyManagementPolicies holds the author's own
	// spec.managementPolicies of a managed resource as a JSON array, verbatim,
	// while the gate masks it.
	AnnotationKeyManagementPolicies = AnnotationPrefix + "management-policies"

	// AnnotationKeyExternalAuthor holds, as JSON, the author's own value of the
	// field by which the gate of an object is closed that has no
	// managementPolicies: spec.approvePlan of a Terraform of Flux,
	// spec.syncPolicy.automated.enabled of an Argo CD Application. null is the
	// value of an author who left it out.
	AnnotationKeyExternalAuthor = AnnotationPrefix + "external-author"

	// AnnotationKeyGate holds the Gate of a managed resource: the last
	// transition of its mask.
	AnnotationKeyGate = AnnotationPrefix + "gate"

	// AnnotationKeyUsedApprovals holds comma-separated content hashes of once
	// approvals that the composition function let a composed resource's changes
	// through by, where no webhook keeps claims.
	AnnotationKeyUsedApprovals = AnnotationPrefix + "used-approvals"

	// AnnotationKeyHeld holds a Held on a composed resource of which the
	// composition function holds a change back, for as long as it does.
	AnnotationKeyHeld = AnnotationPrefix + "held"

	// AnnotationKeyHeldCreations holds a JSON array of HeldCreation, at most
	// MaxHeldCreations: the creations of composed resources that the composition
	// function holds back. It is on one composed resource that exists, the first
	// by its name in the Composition, for as long as they are held.
	AnnotationKeyHeldCreations = AnnotationPrefix + "held-creations"

	// AnnotationKeySettledIntent holds a SettledIntent of the composite on one of
	// its composed resources, the first by its name in the Composition, where no
	// webhook keeps settled-generation.
	AnnotationKeySettledIntent = AnnotationPrefix + "settled-intent"

	// AnnotationKeySettledFields holds, as JSON, the fields of a composite that
	// AllowancePolicies read, as they were when it last settled, on one of its composed
	// resources: where the composition function grants allowances, it compares
	// with it to find what an intent changed.
	AnnotationKeySettledFields = AnnotationPrefix + "settled-fields"

	// AnnotationKeyApplied holds a digest of what the pipeline applied last of a
	// composed resource of which others store values otherwise than they are applied,
	// such as mutating webhooks: what has it is applied again, and is no change.
	AnnotationKeyApplied = AnnotationPrefix + "applied"

	// AnnotationKeyDerivedFrom names the ResourceGraphDefinition an
	// AllowancePolicy was derived from.
	AnnotationKeyDerivedFrom = AnnotationPrefix + "derived-from"
)

// User annotations: users and GitOps tools may write them at any time. The
// object's own controller and its parent's controller cannot change them.
const (
	// AnnotationKeyApprovals holds an array of Approval.
	AnnotationKeyApprovals = AnnotationPrefix + "approvals"

	// AnnotationKeyRejections holds an array of Rejection.
	AnnotationKeyRejections = AnnotationPrefix + "rejections"

	// AnnotationKeyApprovePrefix followed by a difference id holds an
	// ApprovalMode and approves exactly that difference.
	AnnotationKeyApprovePrefix = AnnotationPrefix + "approve-"

	// AnnotationKeyFreeze holds a Freeze, or the legacy "true" or "false".
	AnnotationKeyFreeze = AnnotationPrefix + "freeze"

	// AnnotationKeySnooze holds a Snooze, or the legacy RFC 3339 time.
	AnnotationKeySnooze = AnnotationPrefix + "snooze"

	// AnnotationKeyLegacySnooze is the legacy name of AnnotationKeySnooze.
	AnnotationKeyLegacySnooze = AnnotationPrefix + "snooze-until"

	// AnnotationKeyRemoval on the webhook configuration is since when Kausality is
	// being removed.
	AnnotationKeyRemoval = AnnotationPrefix + "removal"
	// AnnotationKeyCrossplaneReads reports what Crossplane may read for the function: CrossplaneReadsAll
	// or CrossplaneReadsNone. On the CustomResourceDefinition of Kausality policies it comes with the
	// ClusterRole that lets Crossplane read them; on the webhook configuration, where it counts first,
	// the policy controller writes whether that ClusterRole exists.
	AnnotationKeyCrossplaneReads = AnnotationPrefix + "crossplane-reads"
	// AnnotationKeyProtection on the Lease that the webhook writes is what its flags demand of clients
	// and approvers, for tools that show what is not protected.
	AnnotationKeyProtection = AnnotationPrefix + "protection"
	// AnnotationKeyMode holds a Mode, on an object or a Namespace.
	AnnotationKeyMode = AnnotationPrefix + "mode"

	// AnnotationKeyDeletion on a managed resource holds DeletionOrphan where
	// deleting it may leave its external resource behind.
	AnnotationKeyDeletion = AnnotationPrefix + "deletion"

	// AnnotationKeyParent holds the UID of the owner with controller: true that a
	// write gives to a child of another one, or ParentNone: it declares, in that
	// write, that the change is meant.
	AnnotationKeyParent = AnnotationPrefix + "parent"

	// AnnotationKeyTraceLabelPrefix followed by a name holds a label of the
	// object's own hop.
	AnnotationKeyTraceLabelPrefix = AnnotationPrefix + "trace-"
)

// AnnotationKeyCompositionResourceName is Crossplane's annotation that names a
// composed resource within its Composition.
const AnnotationKeyCompositionResourceName = "crossplane.io/composition-resource-name"

// AnnotationKeyExternalName is Crossplane's annotation that names the external
// resource of a managed resource.
const AnnotationKeyExternalName = "crossplane.io/external-name"

// AnnotationKeyReconcileRequestedAt requests a reconcile from Crossplane, or
// from a provider built on its runtime; the value, a time, is echoed in
// status.lastHandledReconcileAt.
const AnnotationKeyReconcileRequestedAt = "crossplane.io/reconcile-requested-at"

// Values of AnnotationKeyCrossplaneReads. Any other value counts as CrossplaneReadsAll.
const (
	CrossplaneReadsAll  = "all"
	CrossplaneReadsNone = "none"
)

// DeletionOrphan is the value of AnnotationKeyDeletion that requests orphaning.
const DeletionOrphan = "orphan"

// ParentNone is the value of AnnotationKeyParent for an object that is to have no
// owner with controller: true.
const ParentNone = "none"

// MaxHashes is how many user hashes updaters and controllers keep.
const MaxHashes = 5

// MaxAnnotationBytes is how large the trace and the allowances of one object
// may be together, in bytes (KR-02-15).
const MaxAnnotationBytes = 32 * 1024

var userKeys = map[string]bool{
	AnnotationKeyApprovals:    true,
	AnnotationKeyRejections:   true,
	AnnotationKeyFreeze:       true,
	AnnotationKeySnooze:       true,
	AnnotationKeyLegacySnooze: true,
	AnnotationKeyMode:         true,
	AnnotationKeyDeletion:     true,
	AnnotationKeyParent:       true,
}

// systemKeys are the known ones; keys of a newer version are protected as they are.
var systemKeys = map[string]bool{
	AnnotationKeyTrace:              true,
	AnnotationKeyAllowances:         true,
	AnnotationKeyUpdaters:           true,
	AnnotationKeyControllers:        true,
	AnnotationKeyControllerIDs:      true,
	AnnotationKeyPhase:              true,
	AnnotationKeyInitialized:        true,
	AnnotationKeySettledGeneration:  true,
	AnnotationKeySettledState:       true,
	AnnotationKeyFingerprint:        true,
	AnnotationKeyLegacyFingerprint:  true,
	AnnotationKeyAuthors:            true,
	AnnotationKeyLastUpgrade:        true,
	AnnotationKeyClaims:             true,
	AnnotationKeyManagementPolicies: true,
	AnnotationKeyExternalAuthor:     true,
	AnnotationKeyGate:               true,
	AnnotationKeyUsedApprovals:      true,
	AnnotationKeyHeld:               true,
	AnnotationKeyHeldCreations:      true,
	AnnotationKeySettledIntent:      true,
	AnnotationKeySettledFields:      true,
	AnnotationKeyApplied:            true,
	AnnotationKeyDerivedFrom:        true,
	AnnotationKeyRemoval:            true,
	AnnotationKeyCrossplaneReads:    true,
	AnnotationKeyProtection:         true,
}

// IsSystem reports whether an annotation key is a system annotation of this version.
func IsSystem(key string) bool { return systemKeys[key] }

// UserKeyNames are the names of user annotations without prefix, sorted; of those with
// names of their own (approve-, trace-) there are none.
func UserKeyNames() []string {
	out := make([]string, 0, len(userKeys))
	for key := range userKeys {
		out = append(out, strings.TrimPrefix(key, AnnotationPrefix))
	}
	slices.Sort(out)
	return out
}

// WebhookConfigurationName is the name of Kausality's webhook configuration.
const WebhookConfigurationName = "kausality"

// IsKausality reports whether an annotation key is in Kausality's domain.
func IsKausality(key string) bool { return strings.HasPrefix(key, AnnotationPrefix) }

// IsUser reports whether an annotation key is a user annotation. Every other key
// in Kausality's domain is a system annotation, so that a key of a newer version
// is protected by an older one.
func IsUser(key string) bool {
	return userKeys[key] || IsApprove(key) || strings.HasPrefix(key, AnnotationKeyTraceLabelPrefix)
}

// IsComposed reports whether a Composition may set an annotation key of Kausality's
// domain, so that it is accepted from Crossplane's apply of a composed resource:
// mode, deletion and the labels of traces (KR-02-11).
func IsComposed(key string) bool {
	return key == AnnotationKeyMode || key == AnnotationKeyDeletion || strings.HasPrefix(key, AnnotationKeyTraceLabelPrefix)
}

// IsApprove reports whether an annotation key is AnnotationKeyApprovePrefix
// with a difference id.
func IsApprove(key string) bool {
	return strings.HasPrefix(key, AnnotationKeyApprovePrefix) && len(key) > len(AnnotationKeyApprovePrefix)
}

// HoldsApprovals reports whether users write approvals into an annotation.
func HoldsApprovals(key string) bool { return key == AnnotationKeyApprovals || IsApprove(key) }

// NeedsApproverVerb reports whether writing an annotation is a decision about
// the work of controllers, for which approver RBAC requires the verb "approve".
func NeedsApproverVerb(key string) bool {
	return IsUser(key) && !strings.HasPrefix(key, AnnotationKeyTraceLabelPrefix)
}
