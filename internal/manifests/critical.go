package manifests

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// criticalResources never wait for the webhook, also where a policy guards all of their group (KR-13-55): nodes and the API server
// itself write them, and cannot go on without. Groups that have nothing else are denied altogether (see denied).
var criticalResources = map[string][]string{
	"flowcontrol.apiserver.k8s.io": {all},
	"internal.apiserver.k8s.io":    {all},
	"networking.k8s.io":            {"ipaddresses", "servicecidrs"},
	"resource.k8s.io":              {"resourceslices"},
	"storage.k8s.io":               {"csinodes", "csistoragecapacities", "volumeattachments"},
}

// ownGroups have cluster-scoped objects of Kausality itself, which its controller and an upgrade write while the webhook is
// down: they are what it needs to get up again.
var ownGroups = []string{"apiextensions.k8s.io", "rbac.authorization.k8s.io"}

// ownObjects is true for cluster-scoped objects of Kausality, by their names.
const ownObjects = `(!has(request.namespace) || request.namespace == "") && has(request.name) &&
(request.name.startsWith("kausality-") || request.name.endsWith(".kausality.io"))`

// uncritical returns the condition that keeps what is critical away from the webhook; only of an entry for such groups.
func (e entry) uncritical() []admissionregistrationv1.MatchCondition {
	var never []string
	for _, g := range e.groups {
		if resources, ok := criticalResources[g.name]; ok {
			is := `request.resource.group == ` + quote(g.name)
			if !slices.Contains(resources, all) {
				is += ` && request.resource.resource in ` + list(resources)
			}
			never = append(never, is)
		}
		if slices.Contains(ownGroups, g.name) {
			never = append(never, `request.resource.group == `+quote(g.name)+` && `+ownObjects)
		}
	}
	if len(never) == 0 {
		return nil
	}
	return []admissionregistrationv1.MatchCondition{{Name: "not-cluster-critical", Expression: "!(" + strings.Join(never, " ||\n") + ")"}}
}
