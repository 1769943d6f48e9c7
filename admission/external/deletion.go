package external

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Destruction is what deleting an object would destroy outside, for kinds that
// have no managementPolicies. The zero value destroys nothing.
type Destruction struct {
	// Verb of the system that permits it.
	Verb v1alpha1.Verb
	// Why it destroys, as a clause for people.
	Why string
	// Otherwise is how to delete the object and leave what it stands for, as a
	// command's arguments without the object.
	Otherwise string
}

// argoFinalizer lets Argo CD delete the resources of an Application with it;
// /background and /foreground may follow (read, v3.3).
const argoFinalizer = "resources-finalizer.argocd.argoproj.io"

// Destroys tells what deleting an object would destroy outside: a Terraform of
// Flux with destroyResourcesOnDeletion, which is applied without anybody's
// approval of a plan, and an Argo CD Application with its finalizer.
func Destroys(gk schema.GroupKind, content map[string]any) Destruction {
	switch gk {
	case schema.GroupKind{Group: "infra.contrib.fluxcd.io", Kind: "Terraform"}:
		if spec, _ := at(content, "spec"); spec["destroyResourcesOnDeletion"] == true {
			return Destruction{Verb: VerbDestroy, Why: "spec.destroyResourcesOnDeletion destroys everything it made",
				Otherwise: `--type=merge -p '{"spec":{"destroyResourcesOnDeletion":false}}'`}
		}
	case schema.GroupKind{Group: "argoproj.io", Kind: "Application"}:
		meta, _ := at(content, "metadata")
		list, _ := meta["finalizers"].([]any)
		for _, f := range list {
			if name, _ := f.(string); name == argoFinalizer || strings.HasPrefix(name, argoFinalizer+"/") {
				return Destruction{Verb: VerbRemove, Why: "its finalizer " + name + " deletes everything it deployed",
					Otherwise: `--type=merge -p '{"metadata":{"finalizers":null}}'`}
			}
		}
	}
	return Destruction{}
}
