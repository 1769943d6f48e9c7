package parent

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var podOwners = map[schema.GroupKind]bool{
	{Group: "apps", Kind: "ReplicaSet"}: true, {Group: "apps", Kind: "StatefulSet"}: true,
	{Group: "apps", Kind: "DaemonSet"}: true, {Group: "batch", Kind: "Job"}: true,
}

// SelfHealing reports whether a change of a child follows from the state of the
// cluster and not from its parent's spec (KR-04-13). deleted is the child where it is
// deleted, nil otherwise.
func SelfHealing(owner, child schema.GroupKind, deleted *unstructured.Unstructured) bool {
	switch child {
	case schema.GroupKind{Kind: "Pod"}:
		return podOwners[owner]
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return owner == schema.GroupKind{Group: "batch", Kind: "CronJob"}
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}:
		return deleted != nil && scaledToZero(deleted)
	}
	return false
}

func scaledToZero(o *unstructured.Unstructured) bool {
	n := child(o.Object, "spec")["replicas"]
	return n == int64(0) || n == float64(0)
}
