package manifests

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// entry of the webhook configuration: resources that share the Namespaces, the
// labels and what an outage means to them. The zero value is for everything.
type entry struct {
	// name is "" for the one entry of a configuration without policies.
	name          string
	groups        []group
	failurePolicy admissionregistrationv1.FailurePolicyType
	// namespaces by name; nil where they are not restricted by name.
	namespaces, excluded []string
	selector             *metav1.LabelSelector
	objectSelector       *metav1.LabelSelector
	// byDefault is the mode of Scopes without one.
	byDefault v1alpha1.Mode
	// own Scopes of the entry, and all that go before the last of them.
	own, before []settings.Scope
	// lenient are the named Namespaces in which a more specific Scope only logs.
	lenient []string
}

// webhookName is unique in the configuration, and appears in audit annotations and in
// errors of clients.
func (e entry) webhookName() string {
	if e.name == "" {
		return "admission.kausality.io"
	}
	return e.name + ".admission.kausality.io"
}

// scope: cluster-scoped objects have no Namespace that could be chosen, and a
// namespaceSelector lets them all through.
func (e entry) scope() *admissionregistrationv1.ScopeType {
	if e.namespaces != nil || e.selector != nil {
		return new(admissionregistrationv1.NamespacedScope)
	}
	return new(admissionregistrationv1.AllScopes)
}

// namespaceSelector of an entry, without the Namespaces that never depend on
// the webhook.
func (e entry) namespaceSelector(never []string) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	if e.selector != nil {
		out = e.selector.DeepCopy()
	}
	name := func(op metav1.LabelSelectorOperator, values []string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: op, Values: values}
	}
	out.MatchExpressions = append(out.MatchExpressions, name(metav1.LabelSelectorOpNotIn, never))
	if len(e.excluded) > 0 {
		out.MatchExpressions = append(out.MatchExpressions, name(metav1.LabelSelectorOpNotIn, e.excluded))
	}
	if e.namespaces != nil {
		out.MatchExpressions = append(out.MatchExpressions, name(metav1.LabelSelectorOpIn, e.namespaces))
	}
	return out
}

// entriesOf Scopes, which come with the most specific first. Those of one policy
// that differ in their resources alone share an entry.
func entriesOf(scopes []settings.Scope, byDefault v1alpha1.Mode) []entry {
	var out []entry
	taken := map[string]bool{}
	for _, s := range scopes {
		taken[s.Policy] = true // its first entry has that name
	}
	first := map[string]bool{}
	for i, s := range scopes {
		failure := failurePolicyOf(s.Mode, byDefault)
		at := slices.IndexFunc(out, func(e entry) bool {
			first := e.own[0]
			return first.Policy == s.Policy && e.failurePolicy == failure && (first.Namespaces == nil) == (s.Namespaces == nil) &&
				slices.Equal(first.Namespaces, s.Namespaces)
		})
		if at < 0 {
			name := s.Policy
			if first[name] {
				name = unique(taken, name)
			}
			first[s.Policy] = true
			out = append(out, entry{
				name: name, failurePolicy: failure, byDefault: byDefault, namespaces: s.Namespaces, excluded: s.ExcludedNamespaces,
				selector: s.NamespaceSelector, objectSelector: s.ObjectSelector,
			})
			at = len(out) - 1
		}
		out[at].own = append(out[at].own, s)
		out[at].before = scopes[:i+1]
	}
	for i := range out {
		out[i].groups, out[i].lenient = groupsOf(out[i].own), lenient(out[i], byDefault)
	}
	return out
}

// lenient returns the Namespaces in which a Scope before the entry only logs; nil for an
// entry that does not refuse.
func lenient(e entry, byDefault v1alpha1.Mode) []string {
	var out []string
	for _, s := range e.before {
		if e.failurePolicy == admissionregistrationv1.Fail && failurePolicyOf(s.Mode, byDefault) == admissionregistrationv1.Ignore && e.overlaps(s) {
			out = append(out, s.Namespaces...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// numbered name of the n-th entry of a policy, from 1. The first has the policy's
// own name, so that most policies are recognised by it.
func numbered(policy string, n int) string {
	if n == 1 {
		return policy
	}
	return policy + "-" + strconv.Itoa(n)
}

// failurePolicyOf a mode: log refuses no request, also not during an outage
// (KR-12-04).
func failurePolicyOf(mode, byDefault v1alpha1.Mode) admissionregistrationv1.FailurePolicyType {
	if cmp.Or(mode, byDefault) == v1alpha1.ModeEnforce {
		return admissionregistrationv1.Fail
	}
	return admissionregistrationv1.Ignore
}

// labelKeys returns those of the labels that decide which Scope holds for an object of the
// entry; sorted, nil for none.
func (e entry) labelKeys() []string {
	var out []string
	for _, s := range e.before {
		if s.ObjectSelector == nil || !e.overlaps(s) {
			continue
		}
		out = slices.AppendSeq(out, maps.Keys(s.ObjectSelector.MatchLabels))
		for _, r := range s.ObjectSelector.MatchExpressions {
			out = append(out, r.Key)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// groupsOf Scopes: their resources by API group.
func groupsOf(scopes []settings.Scope) []group {
	byName := map[string][]string{}
	for _, s := range scopes {
		for _, g := range s.APIGroups {
			byName[g] = append(byName[g], s.Resources...)
		}
	}
	return sorted(byName)
}

// mine returns a CEL expression that is true where one of the entry's own Scopes is
// the most specific for a request; "" where its rules suffice. Where an earlier
// Scope cannot be evaluated from the request alone, since it selects Namespaces by
// their labels, the request goes to both entries: the webhook gives both the same
// answer.
func (e entry) mine() string {
	var out strings.Builder
	foreign := false
	for _, s := range e.before {
		own := slices.ContainsFunc(e.own, func(o settings.Scope) bool { return same(o, s) })
		if !own && (s.NamespaceSelector != nil || !e.overlaps(s)) {
			continue
		}
		foreign = foreign || !own || len(s.Excluded) > 0
		out.WriteString(covers(s, own))
		if own {
			out.WriteString(" ? true :\n")
		} else {
			out.WriteString(" ? false :\n")
		}
	}
	if !foreign {
		return ""
	}
	return out.String() + "false"
}

// same reports whether two Scopes are the same one: they are values without names.
func same(a, b settings.Scope) bool {
	return a.Policy == b.Policy && a.Mode == b.Mode && slices.Equal(a.APIGroups, b.APIGroups) && slices.Equal(a.Resources, b.Resources) &&
		slices.Equal(a.Namespaces, b.Namespaces) && (a.Namespaces == nil) == (b.Namespaces == nil)
}

// overlaps reports whether a Scope may hold for something the entry has rules
// for.
func (e entry) overlaps(s settings.Scope) bool {
	return slices.ContainsFunc(e.own, func(o settings.Scope) bool {
		groups := slices.ContainsFunc(o.APIGroups, func(g string) bool { return slices.Contains(s.APIGroups, g) })
		resources := o.Resources[0] == all || s.Resources[0] == all || slices.ContainsFunc(o.Resources,
			func(r string) bool { return slices.Contains(s.Resources, r) })
		namespaces := o.Namespaces == nil || s.Namespaces == nil || slices.ContainsFunc(o.Namespaces, func(n string) bool { return slices.Contains(s.Namespaces, n) })
		return groups && resources && namespaces
	})
}
