package webhook

import "github.com/kausality-io/function-kausality/test/controlplane"

// groupSuffix of the API groups: each fleet has FLEET.test.example.org.
const groupSuffix = ".test.example.org"

// fleets are the names of all fleets: one for each test that has replicas of
// its own to kill, to stop or to count on.
var fleets = []string{
	"once", "voters", "stored", "wildcard", "given", "race", "fresh", "restart", "offline", "pending", "unsettled",
	"labelled", "fallen", "gone", "strict", "lenient", "reads", "reports", "spread", "pinned",
	"apart", "policies", "upgrades", "documented", "excepted", "lag", "after", "clients", "forged", "forgedclaims", "silent", "slow",
	"behind", "farbehind", "ahead", "farahead", "kept", "delivery", "killed", "published", "derived", "stale", "slack",
	"slackrights", "slackgated", "slackrevoked", "slackexception",
}

// kindsOf a group: App reports status.observedGeneration, Part may be poisoned so
// that it is refused after mutating admission, Managed is like a managed
// resource, XBucket a composite. Fleet lag has a Claim and its composite alone.
func kindsOf(group string) []controlplane.Kind {
	if group == "lag"+groupSuffix {
		return []controlplane.Kind{{Group: group, Kind: "App"}, {Group: group, Kind: "Part"},
			{Group: group, Kind: "Bucket", Categories: []string{"claim"}}, {Group: group, Kind: "XBucket", Categories: []string{"composite"}}}
	}
	return []controlplane.Kind{
		{Group: group, Kind: "App"}, {Group: group, Kind: "XBucket", Categories: []string{"composite"}},
		{Group: group, Kind: "Part", Spec: `
          {type: object, properties: {count: {type: integer}, poison: {type: boolean}},
            x-kubernetes-validations: [{rule: "!has(self.poison) || !self.poison", message: "it is poisoned"}]}`},
		{Group: group, Kind: "Managed", Spec: controlplane.ManagedSpec},
	}
}
