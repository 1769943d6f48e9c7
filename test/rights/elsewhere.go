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
	// derived has the policies of a graph of kro.
	derived = "kro/derived.TestLife"
	// authors has the policy of authors go.
	authors = "operations/changes.TestAuthors"
	// masked has CRDs of objects that are masked.
	masked = "operations/changes.TestCRDsOfMaskedObjects"
	// ungated opens what waits for approval.
	ungated = "operations/changes.TestUngateOpen"
	// uninstall removes the chart.
	uninstall = "operations/changes.TestUninstall"
	// emergency removes it where there is no webhook configuration any more.
	emergency = "operations/changes.TestUninstallAfterEmergency"
	// rollout and everywhere are Rollouts of a Namespace and of all.
	rollout    = "operations/changes.TestRollout"
	everywhere = "operations/changes.TestClusterRollout"
	// held has changes that follow from a revision of a graph.
	held = "kro.TestHeld"
	// plugin runs the story on Crossplane, with Compositions, Functions and votes.
	plugin = "kubectl.TestPlugin"
)

// Elsewhere are the rights that no test of test/operations itself uses, by their String, with the test that does. That test calls Show.
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

	"controller: create events.events.k8s.io":                 derived,
	"controller: list resourcegraphdefinitions.kro.run":       derived,
	"controller: watch resourcegraphdefinitions.kro.run":      derived,
	"controller: get allowancepolicies.kausality.io":          derived,
	"controller: create allowancepolicies.kausality.io":       derived,
	"controller: update allowancepolicies.kausality.io":       derived,
	"controller: delete allowancepolicies.kausality.io":       derived,
	"controller: patch allowancepolicies/status.kausality.io": derived,
	"webhook: get resourcegraphdefinitions.kro.run":           derived,
	"webhook: get graphrevisions.internal.kro.run":            held,
	"webhook: list graphrevisions.internal.kro.run":           derived,

	"controller: create kausalities.kausality.io":                             authors,
	"controller: get providerrevisions.pkg.crossplane.io":                     masked,
	"gate: get drifts.kausality.io":                                           ungated,
	"gate: get mutatingwebhookconfigurations.admissionregistration.k8s.io":    uninstall,
	"gate: create mutatingwebhookconfigurations.admissionregistration.k8s.io": emergency,
	"gate: patch mutatingwebhookconfigurations.admissionregistration.k8s.io":  uninstall,
	"gate: delete mutatingwebhookconfigurations.admissionregistration.k8s.io": emergency,

	"webhook: get rollouts.kausality.io":                  rollout,
	"webhook: patch rollouts.kausality.io":                rollout,
	"webhook: update rollouts/status.kausality.io":        rollout,
	"webhook: get clusterrollouts.kausality.io":           everywhere,
	"webhook: patch clusterrollouts.kausality.io":         everywhere,
	"webhook: update clusterrollouts/status.kausality.io": everywhere,
	"webhook: create rolloutbatches.kausality.io":         everywhere,
	"webhook: list rolloutbatches.kausality.io":           everywhere,
	"webhook: delete rolloutbatches.kausality.io":         everywhere,
	"webhook: update rolloutbatches/status.kausality.io":  everywhere,

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
	"webhook: list functions.pkg.crossplane.io":                     plugin,
}

// Unplayed rights are used in situations that no test plays on a control plane, by their String, with what requests them.
var Unplayed = map[string]string{
	"controller: patch events.events.k8s.io": countsEvents,
	"gate: patch events.events.k8s.io":       countsEvents,
	"webhook: patch events.events.k8s.io":    countsEvents,
	"gate: patch drifts.kausality.io": "Reporter.createOrGet of package drift, for external drift that occurs again after another intent; " +
		delivery + " shows the same code in the webhook",
	"gate: get driftreceivers.kausality.io":          sendsExternal,
	"gate: create driftreceivers.kausality.io":       sendsExternal,
	"gate: delete driftreceivers.kausality.io":       sendsExternal,
	"gate: patch driftreceivers/status.kausality.io": sendsExternal,
}

const sendsExternal = "receiver.show of package drift, for reports of external drift; " + delivery + " shows the same code in the webhook"

const countsEvents = "recordToSink of k8s.io/client-go/tools/events, for the same event about the same version of an object"
