package v1alpha1

// Field managers of Kausality's own writes, as they appear in managedFields and
// audit logs. The policies of `kausality manifests` and of the Helm chart match
// on ManagerPrefix.
const (
	// ManagerPrefix is common to the components that run in a cluster.
	ManagerPrefix = "kausality-"

	// ManagerWebhook is the admission webhook's: system annotations of parents,
	// and the status of approval policies.
	ManagerWebhook = ManagerPrefix + "webhook"
	// ManagerGate is the gate's: masks, gate annotations and claims.
	ManagerGate = ManagerPrefix + "gate"
	// ManagerController is the policy controller's: the webhook configuration
	// and its Secrets, and the status of policies.
	ManagerController = ManagerPrefix + "controller"
	// ManagerRemoval is the removal's: the webhook configuration that refuses
	// nothing while Kausality is uninstalled.
	ManagerRemoval = ManagerPrefix + "removal"

	// ManagerKubectl is that of `kubectl kausality`, which writes with the
	// user's own permissions: its writes are the user's.
	ManagerKubectl = "kubectl-kausality"
)

// WebhookMetadata is the name of the webhook, in the configuration, for writes of a status
// that change more than the status. It does not show whose status is reviewed.
const WebhookMetadata = "metadata.kausality.io"

// ConditionSuspended is the name of the match condition, false for every request, of the webhooks of a
// suspended policy.
const ConditionSuspended = "not-suspended"
