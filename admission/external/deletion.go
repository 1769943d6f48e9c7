package external

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Destruction describes what deleting an object would destroy outside, for kinds that have no managementPolicies. The
// zero value destroys nothing.
type Destruction struct {
	// Verb of the system that permits it.
	Verb v1alpha1.Verb
	// Why it destroys, as a clause of a message.
	Why string
	// Otherwise describes how to delete the object and keep the external resources that it represents, as a command's
	// arguments without the object.
	Otherwise string
}

// argoFinalizer lets Argo CD delete the resources of an Application with it;
// /background and /foreground may follow (read, v3.3).
const argoFinalizer = "resources-finalizer.argocd.argoproj.io"

// Destroys returns the Destruction that deleting an object would cause. Two kinds cause one: a Terraform of Flux with
// destroyResourcesOnDeletion, which is applied without the approval of a plan, and an Argo CD Application with its
// finalizer.
func Destroys(gk schema.GroupKind, content map[string]any) Destruction {
	switch gk {
	case schema.GroupKind{Group: "infra.contrib.fluxcd.io", Kind: "Terraform"}:
		if spec, _ := at(content, "spec"); spec["destroyResourcesOnDeletion"] == true {
			return Destruction{Verb: verb.Destroy, Why: "spec.destroyResourcesOnDeletion destroys everything it made",
				Otherwise: `--type=merge -p '{"spec":{"destroyResourcesOnDeletion":false}}'`}
		}
	case schema.GroupKind{Group: "argoproj.io", Kind: "Application"}:
		meta, _ := at(content, "metadata")
		list, _ := meta["finalizers"].([]any)
		for i, f := range list {
			if name, _ := f.(string); name == argoFinalizer || strings.HasPrefix(name, argoFinalizer+"/") {
				return Destruction{Verb: verb.Remove, Why: "its finalizer " + name + " deletes everything it deployed",
					Otherwise: withoutFinalizer(i, name)}
			}
		}
	}
	return Destruction{}
}

// withoutFinalizer returns the arguments of a kubectl patch that removes one finalizer by its index, if it is still
// the same one. Other finalizers stay.
func withoutFinalizer(index int, name string) string {
	path := change.Pointer("metadata", "finalizers", strconv.Itoa(index))
	return fmt.Sprintf(`--type=json -p '[{"op":"test","path":%[1]q,"value":%[2]q},{"op":"remove","path":%[1]q}]'`, path, name)
}
