package manifests

import (
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// maxEnforcedNames bounds the names of Namespaces in the selectors of a configuration: an object of the API server has at most
// 1.5 MiB, and each name takes up to 70 bytes.
const maxEnforcedNames = 10_000

// NeverGuarded reports whether no webhook is called for the objects in a Namespace, whatever it is annotated with: the cluster
// and Kausality need them to get up again.
func NeverGuarded(namespace string) bool { return slices.Contains(excludedNamespaces, namespace) }

// Outage is what happens to changes that a policy covers while the webhook does not answer.
type Outage struct {
	// Suspended: the webhook is not called, so that an outage changes nothing.
	Suspended bool
	// Refuses and Allows: the policy has parts that fail closed, and parts that fail open.
	Refuses, Allows bool
	// Enforced is the number of Namespaces that fail closed by their annotation, in the parts that fail open.
	Enforced int
}

// String returns what `kubectl get` shows.
func (o Outage) String() string {
	text := "allows"
	switch {
	case o.Suspended:
		return "suspended"
	case o.Refuses && o.Allows:
		text = "refuses in part"
	case o.Refuses:
		return "refuses"
	}
	switch o.Enforced {
	case 0:
		return text
	case 1:
		return text + ", refuses in 1 namespace"
	}
	return text + ", refuses in " + strconv.Itoa(o.Enforced) + " namespaces"
}

// withEnforced splits the entries that fail open: in the Namespaces that enforce by their annotation, which the API server does not
// evaluate, they fail closed (KR-12-10). enforced is sorted. left are those for which there was no room; nil for none.
func withEnforced(entries []entry, enforced []string) (out []entry, left []string) {
	open := 0
	for _, e := range entries {
		if e.failurePolicy == admissionregistrationv1.Ignore {
			open++
		}
	}
	if open == 0 || len(enforced) == 0 {
		return entries, nil
	}
	room := max(1, maxEnforcedNames/(2*open))
	if len(enforced) > room {
		enforced, left = enforced[:room], enforced[room:]
	}
	taken := map[string]bool{}
	for _, e := range entries {
		taken[e.name] = true
	}
	for _, e := range entries {
		in := e.among(enforced)
		if e.failurePolicy != admissionregistrationv1.Ignore || len(in) == 0 {
			out = append(out, e)
			continue
		}
		closed := e
		closed.name = unique(taken, e.name+"-enforced")
		closed.failurePolicy, closed.namespaces, closed.lenient = admissionregistrationv1.Fail, in, nil
		e.excluded = append(slices.Clone(e.excluded), in...)
		out = append(out, closed, e)
	}
	return out, left
}

// among returns those of some Namespaces that an entry may be about. The API server evaluates the selector of the entry.
func (e entry) among(namespaces []string) []string {
	var out []string
	for _, n := range namespaces {
		if (e.namespaces == nil || slices.Contains(e.namespaces, n)) && !slices.Contains(e.excluded, n) && !NeverGuarded(n) {
			out = append(out, n)
		}
	}
	return out
}

// unique returns a name like the wanted one that is not taken, and takes it.
func unique(taken map[string]bool, want string) string {
	name := want
	for n := 2; taken[name]; n++ {
		name = numbered(want, n)
	}
	taken[name] = true
	return name
}

// outages by policy, of entries with their enforced Namespaces.
func outages(entries []entry) map[string]Outage {
	out := map[string]Outage{}
	enforced := map[string]map[string]bool{}
	for _, e := range entries {
		policy := e.own[0].Policy
		o := out[policy]
		o.Suspended = e.own[0].Suspended
		switch {
		case e.failurePolicy == admissionregistrationv1.Ignore:
			o.Allows = true
		case failurePolicyOf(e.own[0].Mode, e.byDefault) == admissionregistrationv1.Fail:
			o.Refuses = true
		default: // by annotation
			if enforced[policy] == nil {
				enforced[policy] = map[string]bool{}
			}
			for _, n := range e.namespaces {
				enforced[policy][n] = true
			}
			o.Enforced = len(enforced[policy])
		}
		out[policy] = o
	}
	return out
}
