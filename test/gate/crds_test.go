package gate

import "github.com/kausality-io/function-kausality/test/controlplane"

// kinds: an XR that is composed of a Database, Buckets, and one that has no managementPolicies.
var kinds = []controlplane.Kind{
	{Group: "example.org", Kind: "XStore", Categories: []string{"composite"}},
	bucketLike("Bucket"),
	{Group: "other.example.org", Kind: "Plain", Categories: []string{"managed"}},
}

// bucketLike is a kind of managed resource without a provider.
func bucketLike(kind string) controlplane.Kind {
	return controlplane.Kind{Group: "other.example.org", Kind: kind, Categories: []string{"managed"}, Spec: `
          {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {
            deletionPolicy: {type: string},
            managementPolicies: {type: array, items: {type: string}, default: ["*"]}}}`}
}
