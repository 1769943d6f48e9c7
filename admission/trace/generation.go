package trace

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// generationless kinds of the core API: their creation looks like that of a kind
// with a generation.
var generationless = map[string]bool{
	"ConfigMap": true, "Secret": true, "ServiceAccount": true, "Service": true, "Namespace": true, "Node": true,
	"Endpoints": true, "PersistentVolume": true, "PersistentVolumeClaim": true,
	"Role.rbac.authorization.k8s.io": true, "RoleBinding.rbac.authorization.k8s.io": true,
	"ClusterRole.rbac.authorization.k8s.io": true, "ClusterRoleBinding.rbac.authorization.k8s.io": true,
}

// NextGeneration returns the generation after a write, which the API server increments after mutating
// admission (KR-07-02); 0 for a kind without. old is nil on creation, current on deletion.
func NextGeneration(old, current *unstructured.Unstructured, kind schema.GroupKind) int64 {
	if old == nil {
		if current.GetGeneration() == 0 && generationless[kind.String()] {
			return 0
		}
		return 1
	}
	if g := old.GetGeneration(); g > 0 {
		return g + 1
	}
	return 0
}
