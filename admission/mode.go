package admission

import "github.com/kausality-io/function-kausality/api/v1alpha1"

// ModeOf an object by precedence (spec 5): its own annotation, its Namespace's,
// the default. namespace is asked only where the object does not say.
func ModeOf(annotations map[string]string, namespace func() (v1alpha1.Mode, error), byDefault v1alpha1.Mode) (v1alpha1.Mode, error) {
	switch m := v1alpha1.Mode(annotations[v1alpha1.AnnotationKeyMode]); m {
	case v1alpha1.ModeLog, v1alpha1.ModeEnforce:
		return m, nil
	}
	m, err := namespace()
	if err != nil {
		return "", err
	}
	if m == v1alpha1.ModeLog || m == v1alpha1.ModeEnforce {
		return m, nil
	}
	if byDefault == "" {
		return v1alpha1.ModeLog, nil
	}
	return byDefault, nil
}
