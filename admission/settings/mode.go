package settings

import (
	"maps"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Namespace is what is declared on a Namespace for the objects in it. The zero value
// declares nothing.
type Namespace struct {
	// Mode by its annotation, as it is stored; "" for none.
	Mode v1alpha1.Mode
	// Freeze is the value of its annotation; "" for none.
	Freeze string
	// Terminating: it is being deleted.
	Terminating bool
	// Labels of it; nil where they are not known. They are not modified.
	Labels map[string]string
}

// Equal reports whether another one declares the same, with the same labels.
func (n Namespace) Equal(o Namespace) bool {
	return n.Mode == o.Mode && n.Freeze == o.Freeze && n.Terminating == o.Terminating && maps.Equal(n.Labels, o.Labels)
}

// NamespaceOf returns what the annotations and labels of a Namespace declare.
func NamespaceOf(annotations, labels map[string]string, terminating bool) Namespace {
	out := Namespace{Mode: v1alpha1.Mode(annotations[v1alpha1.AnnotationKeyMode]), Terminating: terminating, Labels: labels}
	if value, ok := annotations[v1alpha1.AnnotationKeyFreeze]; ok {
		if out.Freeze = value; value == "" {
			out.Freeze = " " // it does not parse, and counts as a freeze like any other such value
		}
	}
	return out
}

// PolicyFreeze is the freeze of a Kausality policy.
type PolicyFreeze struct {
	// Policy by name.
	Policy string
	v1alpha1.Freeze
}

// ModeOf returns the mode of an object by precedence (KR-05-21): its own annotation, its Namespace's,
// the policy that covers it, the default. namespace is called only where the object declares no mode; a
// value that is neither log nor enforce is ignored.
func ModeOf(own string, namespace func() (v1alpha1.Mode, error), policy, byDefault v1alpha1.Mode) (v1alpha1.Mode, error) {
	if m := v1alpha1.Mode(own); ValidMode(m) {
		return m, nil
	}
	m, err := namespace()
	if err != nil {
		return "", err
	}
	for _, m := range []v1alpha1.Mode{m, policy, byDefault} {
		if ValidMode(m) {
			return m, nil
		}
	}
	return v1alpha1.ModeLog, nil
}

// ValidMode reports whether a mode is log or enforce.
func ValidMode(m v1alpha1.Mode) bool { return m == v1alpha1.ModeLog || m == v1alpha1.ModeEnforce }
