package external

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/verb"
)

// TakesTags reports whether provenance may be written to spec.forProvider.tags of a managed resource: it is one of
// AWS (s3.aws.upbound.io, s3.aws.m.upbound.io, s3.aws.crossplane.io), and one of the given forProviders, stored or
// wanted, has tags that are a map. A kind without tags would refuse them.
func TakesTags(gk schema.GroupKind, forProviders ...map[string]any) bool {
	if !slices.Contains(strings.Split(gk.Group, "."), "aws") {
		return false
	}
	return slices.ContainsFunc(forProviders, func(p map[string]any) bool {
		_, ok := p["tags"].(map[string]any)
		return ok
	})
}

// TakesEnv reports whether objects are Terraform or OpenTofu Workspaces, which pass spec.forProvider.env to a run.
func TakesEnv(gk schema.GroupKind) bool { return verb.IsWorkspace(gk) }
