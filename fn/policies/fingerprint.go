package policies

import (
	"slices"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Fingerprint returns the fingerprint of what composes, which it reads from the required resources: the
// revision of the Composition, and the active revisions of the functions in its pipeline (KR-06-23). It
// is "" for no revision.
//
// The parts are not those of package internal/decider/builds, which include the images of Crossplane's own Pod:
// no request shows them. Both are stored on objects, so that neither may change: every object would
// count as upgraded. Where there is a webhook, the function does not write its own.
func Fingerprint(req *fnv1.RunFunctionRequest, revision string) string {
	if revision == "" {
		return ""
	}
	revisions := activeOf(req)
	parts := []string{"composition " + revision}
	composition, _ := Required(req, RequirementRevision)
	for _, item := range composition {
		for _, name := range functionsOf(ssa.Object(item.GetResource())) {
			part := "function " + name + " "
			if r, ok := revisions[name]; ok {
				part += r.name + " " + r.image
			}
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return allowance.Fingerprint(slices.Compact(parts))
}
