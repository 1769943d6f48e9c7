package rights

// Tests that show rights, as DIRECTORY.TEST below test/.
const (
	// delivery has a receiver of DriftReports that is away, and Drifts that occur again and that are old.
	delivery = "webhook.TestDelivery"
	// upgrades has controllers that run in Pods.
	upgrades = "webhook.TestUpgradesDistinguishPods"
	// policies of all kinds let drift pass, and are counted and claimed.
	policies = "webhook.TestPoliciesDecide"
	// wake has a window that begins while something is refused.
	wake = "gate.TestWakeByPolicy"
	// plugin runs the story on Crossplane, with Compositions, Functions and votes.
	plugin = "kubectl.TestPlugin"
)

// Elsewhere are the rights that no test of test/operations uses, by their String, with the test that does. That test calls Show.
var Elsewhere = map[string]string{
	"gate: get upgradeallowances.kausality.io": wake,
	"webhook: create events.events.k8s.io":     delivery,
	"webhook: get drifts.kausality.io":         delivery,
	"webhook: patch drifts.kausality.io":       delivery,
	"webhook: delete drifts.kausality.io":      delivery,

	"webhook: get driftreceivers.kausality.io":          delivery,
	"webhook: list driftreceivers.kausality.io":         delivery,
	"webhook: create driftreceivers.kausality.io":       delivery,
	"webhook: delete driftreceivers.kausality.io":       delivery,
	"webhook: patch driftreceivers/status.kausality.io": delivery,

	"webhook: get pods.":                                   upgrades,
	"webhook: get upgradeallowances.kausality.io":          upgrades,
	"webhook: patch upgradeallowances/status.kausality.io": upgrades,

	"webhook: patch allowancepolicies/status.kausality.io":        policies,
	"webhook: get approvalpolicies.kausality.io":                  policies,
	"webhook: patch approvalpolicies/status.kausality.io":         policies,
	"webhook: update approvalpolicies/status.kausality.io":        policies,
	"webhook: get clusterapprovalpolicies.kausality.io":           policies,
	"webhook: patch clusterapprovalpolicies/status.kausality.io":  policies,
	"webhook: update clusterapprovalpolicies/status.kausality.io": policies,

	"webhook: patch approvalrules/status.kausality.io":              plugin,
	"webhook: list functionrevisions.pkg.crossplane.io":             plugin,
	"webhook: get compositionrevisions.apiextensions.crossplane.io": plugin,
	"webhook: get compositions.apiextensions.crossplane.io":         plugin,
	"webhook: get functions.pkg.crossplane.io":                      plugin,
}

// Unplayed rights are used in situations that no test plays on a control plane, by their String, with what requests them.
var Unplayed = map[string]string{
	"gate: patch events.events.k8s.io":    countsEvents,
	"webhook: patch events.events.k8s.io": countsEvents,
	"gate: patch drifts.kausality.io": "Reporter.createOrGet of package drift, for external drift that occurs again after another intent; " +
		delivery + " shows the same code in the webhook",
	"gate: get driftreceivers.kausality.io":          sendsExternal,
	"gate: create driftreceivers.kausality.io":       sendsExternal,
	"gate: delete driftreceivers.kausality.io":       sendsExternal,
	"gate: patch driftreceivers/status.kausality.io": sendsExternal,
}

const sendsExternal = "receiver.show of package drift, for reports of external drift; " + delivery + " shows the same code in the webhook"

const countsEvents = "recordToSink of k8s.io/client-go/tools/events, for the same event about the same version of an object"
