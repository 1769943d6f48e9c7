package allowance

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// approvalRule adds errors for a rule with a kind that the cluster lacks, or with expressions that match no object of
// the kind (KR-06-28).
func (b *binding) approvalRule(at string, r *v1alpha1.ApprovalPolicyRule) {
	t, exact := exactKind(r)
	found, known := b.find(t)
	if exact && known && len(found) == 0 {
		b.noKind(at+".kind", t)
	}
	if !exact {
		t = target{}
	}
	if exact && known && len(found) > 0 && r.Namespace != "" && r.Namespace != "*" &&
		!slices.ContainsFunc(found, func(k Kind) bool { return !k.ClusterScoped }) {
		b.add(at+".namespace", "objects of %s are in no Namespace", t)
	}
	if r.Prereqs != nil {
		b.condition(at+".prereqs.cel", r.Prereqs.CEL, t)
	}
	if r.Match == nil {
		return
	}
	if r.Match.CEL != "" {
		b.condition(at+".match.cel", r.Match.CEL, t)
	}
	if r.Match.Regexp == "" {
		return
	}
	if re, err := expression.Regexp(r.Match.Regexp); err == nil {
		if prefix, _ := re.LiteralPrefix(); prefix != "" && prefix[0] != '{' {
			b.add(at+".match.regexp", "it matches nothing: it must match the whole JSON of the desired state, which begins with {")
		}
	}
}

// exactKind returns the kind that a rule names; exact is false where it may name several.
func exactKind(r *v1alpha1.ApprovalPolicyRule) (t target, exact bool) {
	if r.Kind == "" || strings.ContainsAny(r.Kind+r.APIVersion, "*?") {
		return target{}, false
	}
	if r.APIVersion == "" {
		return target{kind: r.Kind, anyGroup: true}, true
	}
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	return target{group: gv.Group, version: gv.Version, kind: r.Kind}, err == nil
}

// inNamespace adds an error for a rule of a namespaced policy that selects other Namespaces only, and has no subject
// for which it may do so. In other Namespaces such a policy approves changes by the ServiceAccounts of its own
// Namespace alone (KR-06-29).
func (b *binding) inNamespace(at, namespace string, subjects []v1alpha1.Subject, r *v1alpha1.ApprovalPolicyRule) {
	if namespace == "" || len(subjects) == 0 || newGlob(r.Namespace).match(namespace) {
		return
	}
	if slices.ContainsFunc(subjects, func(s v1alpha1.Subject) bool {
		return s.Kind == v1alpha1.SubjectGroup || strings.HasPrefix(userName(s), serviceAccountPrefix+namespace+":")
	}) {
		return
	}
	b.add(at+".namespace", "%q leaves Namespace %s out, and elsewhere a policy of that Namespace approves changes of its own ServiceAccounts alone",
		r.Namespace, namespace)
}

// shadows reports whether an earlier rule approves everything that a later one matches, for as long (KR-06-30).
func shadows(earlier, later *v1alpha1.ApprovalPolicyRule, now time.Time) bool {
	switch {
	case earlier.Expiry != nil && (!now.Before(earlier.Expiry.Time) || later.Expiry == nil || earlier.Expiry.Before(later.Expiry)):
		return false
	case earlier.Mode != v1alpha1.ApprovalAlways && !reflect.DeepEqual(earlier, later): // rules of equal content share their uses
		return false
	case earlier.Prereqs != nil && !reflect.DeepEqual(earlier.Prereqs, later.Prereqs),
		earlier.Match != nil && !reflect.DeepEqual(earlier.Match, later.Match):
		return false
	}
	return wider(earlier.APIVersion, later.APIVersion) && wider(earlier.Kind, later.Kind) &&
		wider(earlier.Namespace, later.Namespace) && wider(earlier.Name, later.Name)
}

// wider reports whether a glob matches everything that another one does. Of two globs with wildcards only equal ones
// are known to.
func wider(glob, than string) bool {
	switch {
	case glob == "" || glob == "*" || glob == than:
		return true
	case strings.ContainsAny(than, "*?") || than == "":
		return false
	}
	return newGlob(glob).match(than)
}

// UnboundRule returns the same as Unbound, for an ApprovalRule.
func UnboundRule(r *v1alpha1.ApprovalRule, kinds Kinds) []RuleError {
	b := &binding{kinds: kinds, rule: RuleOfApprovals}
	var named []target
	exact := true
	for i, resource := range r.Spec.Match.Resources {
		for j, kind := range resource.Kinds {
			t := target{kind: kind, group: resource.Group, anyGroup: resource.Group == "*"}
			if kind == "*" {
				exact = false
				continue
			}
			named = append(named, t)
			b.exists(fmt.Sprintf("match.resources[%d].kinds[%d]", i, j), t)
		}
	}
	for i, path := range r.Spec.Match.Paths {
		if exact && len(named) > 0 {
			b.inNone(fmt.Sprintf("match.paths[%d]", i), path, named)
		}
	}
	for i, q := range r.Spec.Require {
		b.subjects(fmt.Sprintf("require[%d].subjects", i), q.Subjects)
	}
	if g := r.Spec.BreakGlass; g != nil {
		b.subjects("breakGlass.subjects", g.Subjects)
	}
	return b.found
}

// inNone adds an error where none of several kinds has the field of a path.
func (b *binding) inNone(field, path string, of []target) {
	p, err := change.ParsePattern(path)
	if err != nil {
		return
	}
	at := ""
	for _, t := range of {
		if at = b.lacks(t, func(s *change.Schema) string { return s.LacksPattern(p) }); at == "" {
			return
		}
	}
	b.add(field, "none of the kinds has a field %s", at)
}
