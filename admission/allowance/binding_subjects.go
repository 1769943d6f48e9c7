package allowance

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// granting adds an error where the policy has no subjects, so that its rules grant nothing (KR-06-29).
func (b *binding) granting(subjects []v1alpha1.PolicySubject) {
	if len(subjects) == 0 {
		b.add("subjects", "there are none, so that the rules grant nothing")
	}
}

func subjectsOf(in []v1alpha1.PolicySubject) []v1alpha1.Subject {
	out := make([]v1alpha1.Subject, 0, len(in))
	for _, s := range in {
		out = append(out, s.Subject)
	}
	return out
}

const (
	serviceAccountPrefix      = "system:serviceaccount:"
	serviceAccountGroupPrefix = "system:serviceaccounts:"
)

// subjects adds an error for each subject that cannot exist (KR-06-29).
func (b *binding) subjects(field string, in []v1alpha1.Subject) {
	for i, s := range in {
		at := fmt.Sprintf("%s[%d]", field, i)
		switch s.Kind {
		case v1alpha1.SubjectServiceAccount:
			if why := validation.IsDNS1123Subdomain(s.Name); len(why) > 0 {
				b.add(at+".name", "no ServiceAccount can have the name %q", s.Name)
			}
			if why := validation.IsDNS1123Label(s.Namespace); len(why) > 0 {
				b.add(at+".namespace", "no Namespace can have the name %q", s.Namespace)
			}
		case v1alpha1.SubjectUser:
			b.user(at+".name", s.Name)
		case v1alpha1.SubjectGroup:
			if ns, ok := strings.CutPrefix(s.Name, serviceAccountGroupPrefix); ok && len(validation.IsDNS1123Label(ns)) > 0 {
				b.add(at+".name", "there can be no group %q: %q is no name of a Namespace", s.Name, ns)
			}
		}
	}
}

// user adds an error for a user name that cannot exist.
func (b *binding) user(field, name string) {
	rest, ok := strings.CutPrefix(name, serviceAccountPrefix)
	if !ok {
		return
	}
	ns, account, _ := strings.Cut(rest, ":")
	if len(validation.IsDNS1123Label(ns)) > 0 || len(validation.IsDNS1123Subdomain(account)) > 0 {
		b.add(field, "no ServiceAccount can have the user name %q; it is %sNAMESPACE:NAME", name, serviceAccountPrefix)
	}
}
