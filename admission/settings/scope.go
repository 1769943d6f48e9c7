package settings

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// All stands for all resources of a group.
const All = "*"

// Scope is a part of the cluster in which one policy holds with one mode.
type Scope struct {
	// Policy by name.
	Policy string
	// APIGroups by name, "" for the core group; never a wildcard.
	APIGroups []string
	// Resources by their plural, or All alone.
	Resources []string
	// Excluded plurals, where Resources is All.
	Excluded []string
	// Namespaces by name; nil where they are not restricted by name. A Scope with
	// Namespaces or a NamespaceSelector holds for no cluster-scoped object.
	Namespaces []string
	// NamespaceSelector is nil where they are not restricted by label.
	NamespaceSelector *metav1.LabelSelector
	// ExcludedNamespaces by name.
	ExcludedNamespaces []string
	// ObjectSelector is nil where any labels will do.
	ObjectSelector *metav1.LabelSelector
	// Mode of the policy or of its override; "" leaves it to the installation.
	Mode v1alpha1.Mode
	// Suspended: the webhook is not called.
	Suspended bool
	// TraceOnly: nothing is decided about its objects, and nothing is written to them.
	TraceOnly bool

	namespaceLabels, objectLabels labels.Selector
	// ranks of the policy, which its overrides share.
	namespaceRank, resourceRank int
}

// scopes returns the scopes of a policy, most specific first, or the error in it.
func scopes(k *v1alpha1.Kausality) ([]Scope, error) {
	base := Scope{Policy: k.Name, ObjectSelector: k.Spec.ObjectSelector, Mode: k.Spec.Mode, Suspended: k.Spec.Suspend}
	if base.TraceOnly = k.Spec.TraceOnly; base.TraceOnly {
		base.Mode = v1alpha1.ModeLog // whatever the default is: no write waits for it
	}
	if n := k.Spec.Namespaces; n != nil {
		base.Namespaces, base.NamespaceSelector, base.ExcludedNamespaces = n.Names, n.Selector, n.Excluded
	}
	switch {
	case base.Namespaces != nil:
		base.namespaceRank = 2
	case base.NamespaceSelector != nil:
		base.namespaceRank = 1
	}
	var err error
	if base.namespaceLabels, err = selector(base.NamespaceSelector); err != nil {
		return nil, fmt.Errorf("spec.namespaces.selector: %w", err)
	}
	if base.objectLabels, err = selector(base.ObjectSelector); err != nil {
		return nil, fmt.Errorf("spec.objectSelector: %w", err)
	}
	var named, all []Scope
	for _, r := range k.Spec.Resources {
		s := base
		s.APIGroups = r.APIGroups
		if slices.Contains(r.Resources, All) {
			s.Resources, s.Excluded = []string{All}, r.Excluded
			all = append(all, s)
			continue
		}
		s.Resources, s.resourceRank = r.Resources, 1
		named = append(named, s)
	}
	out := make([]Scope, 0, len(named)+len(all))
	for _, s := range append(named, all...) {
		for _, o := range k.Spec.Overrides {
			if part, ok := s.narrow(o); ok {
				out = append(out, part)
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// selector returns the compiled selector of labels; nil for nil, which matches everything.
func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // nil is no restriction.
	}
	return metav1.LabelSelectorAsSelector(s)
}

// narrow restricts a Scope to the part that an override is about; ok is false where nothing is left.
func (s Scope) narrow(o v1alpha1.ModeOverride) (part Scope, ok bool) {
	s.Mode = o.Mode
	if o.APIGroups != nil {
		s.APIGroups = both(s.APIGroups, o.APIGroups)
	}
	if o.Namespaces != nil {
		if s.Namespaces == nil {
			s.Namespaces = o.Namespaces
		} else {
			s.Namespaces = both(s.Namespaces, o.Namespaces)
		}
	}
	if o.Resources != nil {
		if s.all() {
			s.Resources, s.Excluded = without(o.Resources, s.Excluded), nil
		} else {
			s.Resources = both(s.Resources, o.Resources)
		}
	}
	return s, len(s.APIGroups) > 0 && len(s.Resources) > 0 && (s.Namespaces == nil || len(s.Namespaces) > 0)
}

func both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(e string) bool { return !slices.Contains(b, e) })
}

func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(e string) bool { return slices.Contains(b, e) })
}

func (s *Scope) all() bool { return slices.Contains(s.Resources, All) }

// bySpecificity orders Scopes: a named Namespace over a selected one over all,
// a named resource over all of its group, then by the policy's name. An
// override makes nothing more specific: it comes before its policy's own Scope.
func bySpecificity(a, b Scope) int {
	return cmp.Or(cmp.Compare(b.namespaceRank, a.namespaceRank), cmp.Compare(b.resourceRank, a.resourceRank), cmp.Compare(a.Policy, b.Policy))
}

// Covers reports whether a Scope holds for a resource somewhere.
func (s *Scope) Covers(group, resource string) bool {
	if !slices.Contains(s.APIGroups, group) {
		return false
	}
	if s.all() {
		return !slices.Contains(s.Excluded, resource)
	}
	return slices.Contains(s.Resources, resource)
}

// matches reports whether a Scope holds for an object.
func (s *Scope) matches(t Target) bool {
	return s.Covers(t.Group, t.Resource) && s.inNamespace(t) &&
		(s.objectLabels == nil || s.objectLabels.Matches(labels.Set(t.Labels)))
}

func (s *Scope) inNamespace(t Target) bool {
	if t.Namespace == "" {
		return s.Namespaces == nil && s.namespaceLabels == nil
	}
	return (s.Namespaces == nil || slices.Contains(s.Namespaces, t.Namespace)) &&
		(s.namespaceLabels == nil || s.namespaceLabels.Matches(labels.Set(t.NamespaceLabels))) &&
		!slices.Contains(s.ExcludedNamespaces, t.Namespace)
}
