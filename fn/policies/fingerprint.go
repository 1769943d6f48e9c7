package policies

import (
	"slices"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Fingerprint returns the fingerprint of what composes, which it reads from the required resources: the
// revision of the Composition, and the active revisions of the functions in its pipeline (KR-06-23). It
// is "" for no revision.
//
// The parts are not those of package webhook/builds, which include the images of Crossplane's own Pod:
// no request shows them. Both are stored on objects, so that neither may change: every object would
// count as upgraded. Where there is a webhook, the function does not write its own.
func Fingerprint(req *fnv1.RunFunctionRequest, revision string) string {
	if revision == "" {
		return ""
	}
	active := map[string]string{}
	items, _ := required(req, RequirementFunctions)
	for _, item := range items {
		o := unstructured.Unstructured{Object: ssa.Object(item.GetResource())}
		if spec := ssa.Child(o.Object, "spec"); ssa.Text(spec, "desiredState") == "Active" {
			active[o.GetLabels()["pkg.crossplane.io/package"]] = o.GetName() + " " + ssa.Text(spec, "image")
		}
	}
	parts := []string{"composition " + revision}
	composition, _ := required(req, RequirementRevision)
	for _, item := range composition {
		steps, _ := ssa.Child(ssa.Object(item.GetResource()), "spec")["pipeline"].([]any)
		for _, s := range steps {
			step, _ := s.(map[string]any)
			name := ssa.Text(ssa.Child(step, "functionRef"), "name")
			parts = append(parts, "function "+name+" "+active[name])
		}
	}
	slices.Sort(parts)
	return allowance.Fingerprint(slices.Compact(parts))
}
