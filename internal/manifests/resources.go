package manifests

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const all = "*"

// group of watched resources.
type group struct {
	// name is "" for the core group.
	name string
	// resources are plurals in order, or all alone.
	resources []string
}

// parseResources reads the values of --resources into groups, both in
// alphabetical order so that the output does not depend on that of the flags.
func parseResources(values []string) ([]group, error) {
	byName := map[string][]string{}
	for _, v := range values {
		resource, name, err := parseResource(strings.TrimSpace(v))
		if err != nil {
			return nil, fmt.Errorf("--resources: %w", err)
		}
		byName[name] = append(byName[name], resource)
	}
	if len(byName) == 0 {
		return nil, fmt.Errorf("--resources is missing: list what to watch, as in --resources=deployments.apps,configmaps,*.example.org")
	}
	return sorted(byName), nil
}

// sorted groups, each resource once.
func sorted(byName map[string][]string) []group {
	groups := make([]group, 0, len(byName))
	for name, resources := range byName {
		resources = slices.Clone(resources)
		if slices.Contains(resources, all) {
			resources = []string{all}
		}
		slices.Sort(resources)
		groups = append(groups, group{name: name, resources: slices.Compact(resources)})
	}
	slices.SortFunc(groups, func(a, b group) int { return strings.Compare(a.name, b.name) })
	return groups
}

// withStatus leaves out Pods, whose status kubelets write all the time and which
// are the parents of nothing.
func (g group) withStatus() group {
	if g.name == "" {
		g.resources = slices.DeleteFunc(slices.Clone(g.resources), func(r string) bool { return r == "pods" })
	}
	return g
}

// parseResource reads RESOURCE.GROUP, RESOURCE of the core group, or *.GROUP. What
// the cluster cannot do without is refused, with the reason.
func parseResource(v string) (resource, name string, err error) {
	resource, name, _ = strings.Cut(v, ".")
	switch {
	case v == "":
		return "", "", fmt.Errorf("an entry is empty: write RESOURCE.GROUP, as in deployments.apps")
	case strings.Contains(v, "/"):
		return "", "", fmt.Errorf("%q names a subresource: status and scale are watched with their resource, write %q", v, strings.Split(v, "/")[0])
	case resource != all && len(validation.IsDNS1035Label(resource)) > 0:
		return "", "", fmt.Errorf("%q must be RESOURCE.GROUP with the plural in lower case, as in deployments.apps, or *.GROUP", v)
	case name != "" && !strings.Contains(name, all) && len(validation.IsDNS1123Subdomain(name)) > 0, strings.HasSuffix(v, "."):
		return "", "", fmt.Errorf("%q: %q is no API group, as in example.org", v, name)
	}
	if why := denied(resource, name); why != "" {
		return "", "", fmt.Errorf("%q cannot be watched: %s", v, why)
	}
	return resource, name, nil
}

// deniedGroups must never wait for a webhook, as a whole or in any part.
var deniedGroups = map[string]string{
	"coordination.k8s.io":          "Leases keep nodes and controllers alive, a webhook that is down would stop the cluster",
	"events.k8s.io":                "events are no desired state",
	"discovery.k8s.io":             "endpoints route the traffic that the webhook itself depends on",
	"authentication.k8s.io":        "reviews are questions, not objects",
	"authorization.k8s.io":         "reviews are questions, not objects",
	"admissionregistration.k8s.io": "a webhook must not prevent its own removal",
	"apiregistration.k8s.io":       "the API server itself depends on it",
	"metrics.k8s.io":               "metrics are no desired state",
	"kausality.io":                 "Kausality's own objects would make it call itself",
}

// deniedCore are resources of the core group that must never wait for a webhook.
var deniedCore = map[string]string{
	"nodes":             "kubelets write them all the time, a webhook that is down would take every node down",
	"events":            "events are no desired state",
	"endpoints":         "endpoints route the traffic that the webhook itself depends on",
	"bindings":          "they are calls to the scheduler, not objects",
	"componentstatuses": "they are read-only",
}

// denied returns why a resource must not be watched; "" if it may be.
func denied(resource, name string) string {
	switch {
	case strings.Contains(name, all):
		return "all groups would hold Leases, Nodes and events; name the groups one by one"
	case resource == all && name == "":
		return "the core group would hold Nodes, events and endpoints; name the resources one by one"
	case name == "":
		return deniedCore[resource]
	case name == "certificates.k8s.io":
		return "kubelets could not renew their certificates while the webhook is down"
	}
	return deniedGroups[name]
}

// names lists the resources as webhook rules and policies want them, with a
// subresource where one is named.
func (g group) names(subresource string) []string {
	out := make([]string, 0, len(g.resources))
	for _, r := range g.resources {
		if subresource != "" {
			r += "/" + subresource
		}
		out = append(out, r)
	}
	return out
}

// custom reports whether the group is served by CRDs, so that every resource in
// it may be a parent or child, and none is Kubernetes' own.
func (g group) custom() bool {
	return strings.Contains(g.name, ".") && !strings.HasSuffix(g.name, ".k8s.io")
}
