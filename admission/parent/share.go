package parent

import (
	"unique"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Share replaces the strings that many objects have in common (kinds, namespaces, keys, reasons,
// managers) by shared ones, for a State that is kept: a cache of many objects is mostly strings
// otherwise. It modifies s, which must not be in use.
func (s *State) Share() {
	shareRef(&s.Ref)
	shareRef(&s.Parent)
	for i := range s.Children {
		shareRef(&s.Children[i])
	}
	s.Annotations, s.Labels = shareMap(s.Annotations, false), shareMap(s.Labels, true)
	for i := range s.Conditions {
		share(&s.Conditions[i].Type)
		share(&s.Conditions[i].Reason)
		share((*string)(&s.Conditions[i].Status))
	}
	for _, list := range [][]string{s.StatusManagers, s.ManagementPolicies} {
		for i := range list {
			share(&list[i])
		}
	}
	for _, one := range []*string{&s.Manager, &s.IntentManager, &s.DeletionPolicy, &s.CompositionRevision} {
		share(one)
	}
}

func share(s *string) {
	if *s != "" {
		*s = unique.Make(*s).Value()
	}
}

func shareRef(r *Ref) {
	for _, s := range []*string{&r.Group, &r.Version, &r.Kind, &r.Namespace} {
		share(s)
	}
}

// shareMap returns a map of its own, as large as it needs to be: the one it is
// given is the object's.
func shareMap(in map[string]string, values bool) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]string, len(in))
	for k, v := range in {
		share(&k)
		if values || k == v1alpha1.AnnotationKeyControllerIDs {
			share(&v)
		}
		out[k] = v
	}
	return out
}
